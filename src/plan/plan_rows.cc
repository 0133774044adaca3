#include "plan/plan_rows.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "plan/dynamic_rows.h"
#include "plan/table_content.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using graph::Node;

IntegerTreatment IntegersOf(Role role, const FormatSpec& spec, const QuantConfig& config) {
  const bool is_activation = role == Role::kActivation;
  const bool is_signed = formats::IntegerRange(spec.element_type).quant_min < 0;
  IntegerTreatment treatment;
  treatment.is_symmetric = is_activation ? config.activation_symmetric.value_or(is_signed)
                                         : config.weight_symmetric.value_or(true);
  treatment.is_reduced =
      role == Role::kWeight && config.integer_kernels == IntegerKernels::kReduceRange;
  treatment.scale_kind = is_activation ? config.activation_scale_kind : config.weight_scale_kind;
  treatment.range = is_activation ? config.activation_range : config.weight_range;
  return treatment;
}

}  // namespace

RowMaker::RowMaker(const graph::Model& model, const NodeRules& rules)
    : model_(model), rules_(rules), has_quantized_weights_(ops::HasQuantizedWeights(model)) {}

TensorPlan RowMaker::Float(const std::string& value, Role role, std::string reason) {
  TensorPlan row;
  row.value = value;
  row.role = role;
  row.reason = std::move(reason);
  return row;
}

TensorPlan RowMaker::Quantized(const std::string& value, Role role, const FormatSpec& spec,
                               const Treatment& treatment, int64_t axis) {
  TensorPlan row;
  row.value = value;
  row.role = role;
  row.format = spec.name;
  if (!spec.is_integer()) row.rounding = spec.rounding;  // codes are rounded half to even, as ONNX
  if (spec.is_blocked()) {
    row.axis = axis;
    row.scale_choice = spec.scale_choice;
  }
  if (spec.is_integer()) row.integer = IntegersOf(role, spec, treatment.config);
  const QuantConfig& config = treatment.config;
  if (role == Role::kActivation && config.activation_scaled) {
    // The range of 16-bit formats, and of scales of blocks, is wide, so that nothing need be cut
    // off.
    const bool is_wide = spec.element_bits > 8 || spec.is_blocked();
    row.scaled = ScaledTreatment{is_wide ? RangeMethod{} : config.activation_range, {}};
  } else if (role == Role::kWeight && config.weight_scaled && spec.scaled_maximum > 0) {
    row.scaled = ScaledTreatment{};
  }
  return row;
}

TensorPlan RowMaker::Activation(const Node& node, const std::string& value, int64_t axis) const {
  const Treatment& treatment = rules_.For(node, value);
  std::string reason = treatment.excluded;
  if (reason.empty()) reason = ActivationReason(value, treatment);
  if (reason.empty() && IsDynamic(treatment)) {
    reason = IsFloatConvolution(rules_, node)
                 ? "convolutions on dynamic integers are slow (a rule for them may ask for "
                   "activation_range=dynamic)"
                 : "no integer operator with a scale of its own at every inference reads it";
  }
  if (reason.empty() && treatment.config.activation_scaled &&
      model_.InfoOf(value).type == DataType::kFloat16) {
    reason = "its type is FLOAT16; scaled are FLOAT values only";
  }
  const int64_t rank = RankOf(value);
  if (reason.empty() && rank >= 0 && (axis < -rank || axis >= rank)) {
    reason = fmt::format("rank {} has no axis {} to block along", rank, axis);
  }
  if (!reason.empty()) return Float(value, Role::kActivation, reason);
  return Quantized(value, Role::kActivation, *treatment.activation, treatment,
                   axis < 0 && rank >= 0 ? axis + rank : axis);
}

std::string RowMaker::ActivationReason(const std::string& value, const Treatment& treatment) const {
  const std::optional<Node> producer = model_.Producer(value);
  if (producer && ops::IsQuantizer(*producer))
    return "already quantized by " + producer->Describe();
  if (!treatment.activation) return "activations=none";
  // ONNX Runtime takes every operator of that type between pairs for one on codes.
  if (producer && treatment.activation->is_integer()) {
    const std::string why = ops::WhyNoIntegerForm(*producer);
    if (!why.empty()) return fmt::format("{} gives it: {}", producer->op_type(), why);
  }
  const graph::ValueInfo info = model_.InfoOf(value);
  if (info.type != DataType::kUndefined && info.type != DataType::kFloat &&
      info.type != DataType::kFloat16) {
    return fmt::format("its type is {}; only FLOAT and FLOAT16 are quantized",
                       DataTypeName(info.type));
  }
  if (info.has_shape && info.shape.empty()) return "scalar";
  const bool is_computed = model_.IsInput(value) || model_.IsBodyInput(value) ||
                           model_.IsInitializer(value) || model_.Producer(value).has_value();
  if (!is_computed) return "a constant that is sparse or lies in a body";
  if (info.type == DataType::kUndefined && treatment.activation->is_integer() &&
      !IsDynamic(treatment)) {
    return "its type is not known, so that no statistics can be gathered";
  }
  if (info.type == DataType::kFloat16 && treatment.activation->is_integer()) {
    // Before opset 19 it takes no FLOAT16, and from then on only with scales of that type, which
    // are too coarse.
    return "its type is FLOAT16; integers with a scale are made of FLOAT values only";
  }
  if (info.type == DataType::kFloat16 &&
      !HasHalfOperator(treatment.config.operators, *treatment.activation)) {
    return "its type is FLOAT16; com.amd.quark's Q/DQ pairs give FLOAT";
  }
  return "";
}

TensorPlan RowMaker::Weight(const Node& node, size_t input, const ops::Operand& operand) const {
  const std::string& value = node.input(input);
  const Treatment& treatment = rules_.For(node, value);
  std::string reason = treatment.excluded;
  if (reason.empty() && !treatment.weight) reason = "weights=none";
  if (reason.empty()) reason = ConstantReason(value);
  if (!reason.empty()) return Float(value, Role::kWeight, reason);
  const std::span<const int64_t> dims = model_.Initializer(value).dims;
  const auto rank = static_cast<int64_t>(dims.size());
  if (operand.axis < 0 || operand.axis >= rank) {
    return Float(value, Role::kWeight,
                 fmt::format("rank {} has no axis {} to block along", rank, operand.axis));
  }
  if (treatment.weight->is_integer()) return IntegerWeight(node, input, operand, treatment);
  const ops::WeightLayout layout = ops::LayoutWeight(
      node, operand, dims, treatment.weight->block_size, treatment.config.short_axis);
  TensorPlan row = Quantized(value, Role::kWeight, *treatment.weight, treatment, layout.axis);
  row.flatten = layout.flatten;
  return row;
}

bool RowMaker::IsTable(const Node& node, size_t input) const {
  const bool is_lookup =
      ops::TraitsOf(node).Is(ops::kLooksUp) && input == 0 && node.GetInt("axis", 0) == 0;
  const std::string& value = node.input(input);
  if (!is_lookup || !model_.IsInitializer(value) || RankOf(value) < 2) return false;
  const DataType type = model_.Initializer(value).type;
  return type == DataType::kFloat || type == DataType::kFloat16;
}

std::optional<TensorPlan> RowMaker::FloatConstant(const Node& node, size_t input) const {
  constexpr size_t kLeastBytes = size_t{1} << 18;  // a small one is no part of a file to miss
  const std::string& value = node.input(input);
  if (!model_.IsInitializer(value) || RankOf(value) < 2) return std::nullopt;
  const graph::InitializerView constant = model_.Initializer(value);
  const bool is_float = constant.type == DataType::kFloat || constant.type == DataType::kFloat16;
  const Treatment& treatment = rules_.For(node, value);
  if (!is_float || !treatment.weight || !treatment.excluded.empty() ||
      constant.bytes.size() < kLeastBytes || has_quantized_weights_) {
    return std::nullopt;
  }
  if (!IsTable(node, input)) {
    return Float(value, Role::kWeight,
                 fmt::format("a constant of {}, which is not quantized", node.op_type()));
  }
  if (treatment.embedding || !WhyTableStaysFloat(constant).empty()) return std::nullopt;
  return Float(value, Role::kWeight,
               fmt::format("a table of {} stays float unless asked (embeddings=FORMAT)",
                           HumanBytes(constant.bytes.size())));
}

std::optional<TensorPlan> RowMaker::Table(const Node& node, size_t input) const {
  if (!IsTable(node, input)) return std::nullopt;
  const std::string& value = node.input(input);
  const Treatment& treatment = rules_.For(node, value);
  if (!treatment.embedding) return std::nullopt;
  const int64_t rank = RankOf(value);
  std::string reason = treatment.excluded;
  if (reason.empty()) reason = ConstantReason(value);
  if (reason.empty()) reason = WhyTableStaysFloat(model_.Initializer(value));
  if (!reason.empty()) return Float(value, Role::kWeight, reason);
  // Blocks run within a row, so that a row can be decoded alone.
  TensorPlan row = Quantized(value, Role::kWeight, *treatment.embedding, treatment, rank - 1);
  if (row.integer) {
    row.integer->granularity = treatment.config.weight_granularity;
    if (row.integer->granularity == Granularity::kPerAxis) row.axis = 0;
    if (row.integer->granularity == Granularity::kPerBlock) {
      row.axis = rank - 1;
      row.integer->block_size = treatment.config.weight_block_size;
    }
  }
  return row;
}

TensorPlan RowMaker::IntegerWeight(const Node& node, size_t input, const ops::Operand& operand,
                                   const Treatment& treatment) const {
  const std::string& value = node.input(input);
  const std::span<const int64_t> dims = model_.Initializer(value).dims;
  const Granularity granularity = treatment.config.weight_granularity;
  TensorPlan row = Quantized(value, Role::kWeight, *treatment.weight, treatment, operand.axis);
  row.integer->granularity = granularity;
  if (granularity == Granularity::kPerAxis && operand.slot == ops::Slot::kStack) {
    MakeRowsOfStack(dims, row);
  } else if (granularity == Granularity::kPerAxis) {
    const auto rank = static_cast<int64_t>(dims.size());
    const bool meets_integers = treatment.activation && treatment.activation->is_integer();
    if (!meets_integers || ops::TakesChannelScales(node, input, rank)) {
      row.axis = ops::ChannelAxis(node, input, rank);
    }
    if (!row.axis) row.integer->granularity = Granularity::kPerTensor;
  } else if (granularity == Granularity::kPerBlock) {
    row.integer->block_size = treatment.config.weight_block_size;
    row.axis = operand.axis;
    // DequantizeLinear cannot read several dimensions as one row. No Conv reads one with blocks.
    if (!treatment.activation || !treatment.activation->is_integer() ||
        ops::TraitsOf(node).product == ops::Product::kConv) {
      const ops::WeightLayout layout = ops::LayoutWeight(
          node, operand, dims, row.integer->block_size, treatment.config.short_axis);
      row.axis = layout.axis;
      row.flatten = layout.flatten;
    }
  }
  return row;
}

void RowMaker::MakeRowsOfStack(std::span<const int64_t> dims, TensorPlan& row) {
  BITPRESS_DCHECK(row.integer && dims.size() > 2);
  row.integer->granularity = Granularity::kPerBlock;
  row.axis = 2;
  row.integer->block_size = dims[2];
}

TensorPlan RowMaker::DynamicWeight(const Node& node, const std::string& value) const {
  std::string reason = rules_.For(node, value).excluded;
  if (!reason.empty()) return Float(value, Role::kWeight, reason);
  const std::optional<Node> producer = model_.Producer(value);
  if (!producer) {
    reason = model_.IsInput(value) ? "dynamic weight: a model input"
                                   : "dynamic weight: an input or constant of a body";
  } else if (ops::IsQuantizer(*producer)) {
    reason = "already quantized by " + producer->Describe();
  } else if (ops::QuantizedFrom(model_, value)) {
    reason = "already quantized: stored as codes";
  } else {
    reason = "dynamic weight: computed by " + producer->Describe();
  }
  return Float(value, Role::kWeight, reason);
}

bool RowMaker::MultipliesIntegers(const Node& node) const {
  const std::string& value = node.input(1);
  const Treatment& treatment = rules_.For(node, value);
  return ops::TraitsOf(node).is_product() && treatment.weight && treatment.weight->is_integer() &&
         treatment.weight->element_bits <= 16 && treatment.excluded.empty() &&
         model_.IsInitializer(value) && ConstantReason(value).empty() &&
         treatment.config.weight_granularity != Granularity::kPerBlock;
}

TensorPlan RowMaker::Bias(const Node& node, const std::string& value, const ops::Operand& operand,
                          bool is_of_integers) const {
  const Treatment& treatment = rules_.For(node, value);
  if (!treatment.excluded.empty()) return Float(value, Role::kBias, treatment.excluded);
  if (treatment.config.biases == "none") return Float(value, Role::kBias, "biases=none");
  const bool has_own_scale =
      treatment.bias && treatment.bias->is_integer() && treatment.bias->name != "int32";
  if (is_of_integers && !has_own_scale) return IntegerBias(node, value);
  if (treatment.bias && treatment.bias->name == "int32") {
    if (!MultipliesIntegers(node)) {
      return Float(value, Role::kBias,
                   "int32 has the scale of products of integers; its weight gives none");
    }
    const auto& activation = rules_.For(node, node.input(0)).activation;
    if (activation && activation->is_integer() && activation->element_bits > 16) {
      return Float(value, Role::kBias,
                   "int32 has the scale of products of integers; those of 32-bit codes do not fit");
    }
  }
  if (!treatment.bias) {
    return Float(value, Role::kBias, "biases stay float unless asked (biases=FORMAT)");
  }
  if (!model_.IsInitializer(value)) {
    return Float(
        value, Role::kBias,
        ops::QuantizedFrom(model_, value) ? "already quantized: stored as codes" : "dynamic bias");
  }
  const std::string reason = ConstantReason(value);
  if (!reason.empty()) return Float(value, Role::kBias, reason);
  return Quantized(value, Role::kBias, *treatment.bias, treatment, operand.axis);
}

std::string RowMaker::WhyNoBiasOfProducts(const graph::Model& model, const Node& node,
                                          const std::string& bias) {
  if (node.GetFloat("beta", 1) != 1) return "beta is not 1";
  const std::span<const int64_t> dims = model.Initializer(bias).dims;
  if (dims.size() != 1) return "it is no vector";
  const std::span<const int64_t> weight = model.Initializer(node.input(1)).dims;
  const auto channels = ops::ChannelAxis(node, 1, static_cast<int64_t>(weight.size()));
  if (!channels || dims[0] == weight[static_cast<size_t>(*channels)]) return "";
  return fmt::format("it has {} elements for {} outputs", dims[0],
                     weight[static_cast<size_t>(*channels)]);
}

// Returns the row of an int32 bias with the product of both scales. ONNX Runtime adds it to the
// products as an integer.
TensorPlan RowMaker::IntegerBias(const Node& node, const std::string& value) const {
  const auto stays = [&](std::string reason) {
    return Float(value, Role::kBias, std::move(reason));
  };
  if (!model_.IsInitializer(value)) return stays("dynamic bias");
  const std::string reason = ConstantReason(value);
  if (!reason.empty()) return stays(reason);
  if (std::string why = WhyNoBiasOfProducts(model_, node, value); !why.empty()) return stays(why);
  TensorPlan row;
  row.value = value;
  row.role = Role::kBias;
  row.format = "int32";
  row.integer = IntegerTreatment{};
  row.integer->granularity = rules_.For(node, node.input(1)).config.weight_granularity;
  if (row.integer->granularity == Granularity::kPerAxis) row.axis = 0;
  return row;
}

std::string RowMaker::ConstantReason(const std::string& value) const {
  if (has_quantized_weights_) return "already quantized: this model was written by bitpress";
  const graph::InitializerView constant = model_.Initializer(value);
  if (constant.type != DataType::kFloat && constant.type != DataType::kFloat16) {
    return fmt::format("its type is {}; only FLOAT and FLOAT16 are quantized",
                       DataTypeName(constant.type));
  }
  if (constant.dims.empty()) return "scalar";
  if (NumElements(constant.dims) == 0) return "it has no elements";
  return "";
}

bool RowMaker::IsQuantizedConstant(const std::string& value) const {
  const std::optional<std::string> source = ops::QuantizedFrom(model_, value);
  return source && (source->empty() || model_.IsInitializer(*source));
}

int64_t RowMaker::RankOf(const std::string& value) const {
  const graph::ValueInfo info = model_.InfoOf(value);
  return info.has_shape ? static_cast<int64_t>(info.shape.size()) : -1;
}

}  // namespace bitpress::plan
