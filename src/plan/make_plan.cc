#include "plan/make_plan.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/compute_ops.h"
#include "plan/qdq_placement.h"
#include "plan/quantizer_nodes.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using graph::Model;
using graph::Node;

// Operators that read a tensor's shape only: rounding its values for them is wasted.
constexpr std::string_view kShapeReaders[] = {"Shape", "Size"};
// Normalize along one axis: blocks run along it, as Quark's RefineBlockAxis has it.
constexpr std::string_view kSoftmaxes[] = {"Softmax", "LogSoftmax"};

template <size_t N>
bool Contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kDouble ||
         type == DataType::kBFloat16;
}

// Which nodes the user wants left alone.
class Exclusions {
 public:
  // Throws if one of them matches no node of the model: a typing error would otherwise go
  // unnoticed.
  Exclusions(const QuantConfig& config, const Model& model) : config_(config) {
    for (const std::string& pattern : config.exclude_nodes) patterns_.emplace_back(pattern);
    std::vector<std::string> names;
    std::set<std::string> op_types;
    for (const Node& node : model.Nodes()) {
      names.push_back(node.name());
      op_types.insert(node.op_type());
    }
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (std::none_of(names.begin(), names.end(), [&](const std::string& name) {
            return std::regex_match(name, patterns_[i]);
          })) {
        FailUnmatched("exclude_nodes", config.exclude_nodes[i], "no node's name", names);
      }
    }
    const std::vector<std::string> types(op_types.begin(), op_types.end());
    for (const std::string& op_type : config.exclude_op_types) {
      if (!op_types.contains(op_type)) {
        FailUnmatched("exclude_op_types", op_type, "no operator type", types);
      }
    }
  }

  // The reason, or "".
  std::string ReasonFor(const Node& node) const {
    for (const std::string& op_type : config_.exclude_op_types) {
      if (node.op_type() == op_type) return fmt::format("excluded by exclude_op_types {}", op_type);
    }
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (!node.name().empty() && std::regex_match(node.name(), patterns_[i])) {
        return fmt::format("excluded by exclude_nodes '{}'", config_.exclude_nodes[i]);
      }
    }
    return "";
  }

 private:
  [[noreturn]] static void FailUnmatched(std::string_view key, const std::string& word,
                                         std::string_view what,
                                         std::span<const std::string> candidates) {
    Fail(ErrorCode::kInvalidArgument, "setting {}: '{}' matches {} in the model{}", key, word, what,
         DidYouMean(word, candidates));
  }

  const QuantConfig& config_;
  std::vector<std::regex> patterns_;
};

class Planner {
 public:
  Planner(const QuantConfig& config, const Model& model)
      : config_(config),
        model_(model),
        nodes_(model),
        exclusions_(config, model),
        activation_(ResolveFormat(config, Role::kActivation)),
        weight_(ResolveFormat(config, Role::kWeight)),
        bias_(ResolveFormat(config, Role::kBias)),
        placement_(ResolvePlacement(config)),
        has_quantized_weights_(HasQuantizedWeights(model)) {
    if (activation_) CheckHasOperator(config.operators, *activation_);
    plan_.config = config;
    plan_.operators = config.operators;
    const auto opsets = model.OpsetImports();
    const auto standard = opsets.find("");
    plan_.opset = standard == opsets.end() ? 0 : standard->second;
  }

  QuantPlan Run() {
    if (placement_ == Placement::kQdq) PlanQdqValues();
    for (const Node& node : model_.Nodes()) {
      if (IsQuantizer(node)) continue;
      for (size_t i = 0; i < node.num_inputs(); ++i) {
        if (!node.input(i).empty()) PlanInput(node, i);
      }
      if (placement_ == Placement::kAll) PlanOutputs(node);
    }
    for (const graph::BodyNode& inner : model_.BodyNodes()) ListBodyNode(inner);
    return std::move(plan_);
  }

 private:
  int64_t RankOf(const std::string& value) const {
    const graph::ValueInfo info = model_.InfoOf(value);
    return info.has_shape ? static_cast<int64_t>(info.shape.size()) : -1;
  }

  // Adds the use to the row of the same value and treatment, or begins one.
  void Add(TensorPlan row, const Node& node, size_t input) {
    TensorPlan& target = RowLike(std::move(row));
    target.uses.push_back({nodes_.KeyOf(node), node.op_type(), static_cast<int64_t>(input)});
  }

  TensorPlan& RowLike(TensorPlan row) {
    for (const size_t i : rows_of_value_[row.value]) {
      const TensorPlan& known = plan_.tensors[i];
      if (known.role == row.role && known.format == row.format && known.axis == row.axis &&
          known.flatten == row.flatten && known.reason == row.reason && !IsOfOneNode(row)) {
        return plan_.tensors[i];
      }
    }
    rows_of_value_[row.value].push_back(plan_.tensors.size());
    plan_.tensors.push_back(std::move(row));
    return plan_.tensors.back();
  }

  // Its scale is made of those of one node's input and weight.
  static bool IsOfOneNode(const TensorPlan& row) {
    return row.role == Role::kBias && row.integer.has_value();
  }

  static TensorPlan FloatRow(const std::string& value, Role role, std::string reason) {
    TensorPlan row;
    row.value = value;
    row.role = role;
    row.reason = std::move(reason);
    return row;
  }

  TensorPlan QuantizedRow(const std::string& value, Role role, const FormatSpec& spec,
                          int64_t axis) const {
    TensorPlan row;
    row.value = value;
    row.role = role;
    row.format = spec.name;
    row.rounding = spec.rounding;
    if (spec.is_blocked()) {
      row.axis = axis;
      row.scale_choice = spec.scale_choice;
    }
    if (spec.is_integer()) row.integer = TreatmentOf(role, spec);
    return row;
  }

  IntegerTreatment TreatmentOf(Role role, const FormatSpec& spec) const {
    const bool is_activation = role == Role::kActivation;
    const bool is_signed = formats::IntegerRange(spec.element_type).quant_min < 0;
    IntegerTreatment treatment;
    treatment.is_symmetric = is_activation ? config_.activation_symmetric.value_or(is_signed)
                                           : config_.weight_symmetric.value_or(true);
    treatment.is_reduced = !is_activation && config_.reduce_range;
    treatment.scale_kind =
        is_activation ? config_.activation_scale_kind : config_.weight_scale_kind;
    treatment.range = is_activation ? config_.activation_range : config_.weight_range;
    return treatment;
  }

  void PlanInput(const Node& node, size_t input) {
    const std::string& value = node.input(input);
    const std::optional<Operand> operand = OperandOf(node, input, RankOf(value));
    if (!operand) {
      if (placement_ == Placement::kAll) PlanOtherInput(node, input);
      return;
    }
    if (operand->slot == Slot::kBias) {
      Add(BiasRow(node, value, *operand), node, input);
    } else if (model_.IsInitializer(value)) {
      Add(WeightRow(node, value, *operand, input), node, input);
    } else if (operand->slot == Slot::kKernel || IsQuantizedConstant(value)) {
      Add(FloatRow(value, Role::kWeight, DynamicReason(node, value)), node, input);
    } else if (!qdq_values_.contains(value)) {
      Add(ActivationRow(node, value, operand->axis), node, input);
    }
  }

  // Integers: the values that the placement chose, with everybody who reads them.
  void PlanQdqValues() {
    const auto reason = [&](const Node& node) { return exclusions_.ReasonFor(node); };
    for (const QdqValue& value : PlaceQdq(model_, reason)) {
      if (!ActivationReason(value.name).empty()) continue;
      TensorPlan row = QuantizedRow(value.name, Role::kActivation, *activation_, 0);
      if (row.integer) row.integer->shares = value.shares;
      row.is_graph_output = value.is_graph_output;
      for (const graph::Use& use : model_.Uses(value.name)) {
        if (Contains(kShapeReaders, use.node.op_type())) continue;
        row.uses.push_back(
            {nodes_.KeyOf(use.node), use.node.op_type(), static_cast<int64_t>(use.input_index)});
      }
      qdq_values_.insert(value.name);
      rows_of_value_[value.name].push_back(plan_.tensors.size());
      plan_.tensors.push_back(std::move(row));
    }
  }

  // Whether a constant comes through a quantizer, as in models of other tools.
  bool IsQuantizedConstant(const std::string& value) const {
    const std::optional<std::string> source = QuantizedFrom(model_, value);
    return source && (source->empty() || model_.IsInitializer(*source));
  }

  // Why a weight that is not a constant stays float.
  std::string DynamicReason(const Node& node, const std::string& value) const {
    std::string reason = exclusions_.ReasonFor(node);
    if (!reason.empty()) return reason;
    const std::optional<Node> producer = model_.Producer(value);
    if (!producer) return "dynamic weight: a model input";
    if (IsQuantizer(*producer)) return "already quantized by " + producer->Describe();
    if (QuantizedFrom(model_, value)) return "already quantized: stored as codes";
    return "dynamic weight: computed by " + producer->Describe();
  }

  TensorPlan BiasRow(const Node& node, const std::string& value, const Operand& operand) const {
    const auto stays = [&](std::string reason) {
      return FloatRow(value, Role::kBias, std::move(reason));
    };
    const std::string excluded = exclusions_.ReasonFor(node);
    if (!excluded.empty()) return stays(excluded);
    if (HasIntegerProduct(node)) return IntegerBiasRow(node, value);
    if (!bias_) return stays("biases stay float unless asked (biases=FORMAT)");
    if (!model_.IsInitializer(value)) {
      return stays(QuantizedFrom(model_, value) ? "already quantized: stored as codes"
                                                : "dynamic bias");
    }
    const std::string reason = ConstantReason(value);
    if (!reason.empty()) return stays(reason);
    return QuantizedRow(value, Role::kBias, *bias_, operand.axis);
  }

  // Whether input and weight are integers with one scale, or one for each channel: ONNX Runtime
  // adds the bias to their products then, as an integer of both scales' product.
  bool HasIntegerProduct(const Node& node) const {
    if (!activation_ || !weight_ || !activation_->is_integer() || !weight_->is_integer()) {
      return false;
    }
    return placement_ == Placement::kQdq && qdq_values_.contains(node.input(0)) &&
           model_.IsInitializer(node.input(1)) && ConstantReason(node.input(1)).empty() &&
           config_.weight_granularity != Granularity::kPerBlock;
  }

  TensorPlan IntegerBiasRow(const Node& node, const std::string& value) const {
    const auto stays = [&](std::string reason) {
      return FloatRow(value, Role::kBias, std::move(reason));
    };
    if (!model_.IsInitializer(value)) return stays("dynamic bias");
    const std::string reason = ConstantReason(value);
    if (!reason.empty()) return stays(reason);
    if (node.op_type() == "Gemm" && node.GetFloat("beta", 1) != 1) return stays("beta is not 1");
    if (model_.Initializer(value).dims.size() != 1) return stays("it is no vector");
    TensorPlan row = QuantizedRow(value, Role::kBias, formats::FindFormat("int32"), 0);
    row.integer = IntegerTreatment{};
    row.integer->granularity = config_.weight_granularity;
    if (row.integer->granularity == Granularity::kPerAxis) row.axis = 0;
    return row;
  }

  TensorPlan IntegerWeightRow(const Node& node, const std::string& value, const Operand& operand,
                              size_t input) const {
    const std::span<const int64_t> dims = model_.Initializer(value).dims;
    TensorPlan row = QuantizedRow(value, Role::kWeight, *weight_, operand.axis);
    row.integer->granularity = config_.weight_granularity;
    if (config_.weight_granularity == Granularity::kPerAxis) {
      row.axis = ChannelAxis(node, input, static_cast<int64_t>(dims.size()));
      if (!row.axis) row.integer->granularity = Granularity::kPerTensor;
    } else if (config_.weight_granularity == Granularity::kPerBlock) {
      row.axis = operand.axis;
      row.integer->block_size = config_.weight_block_size;
    }
    return row;
  }

  TensorPlan WeightRow(const Node& node, const std::string& value, const Operand& operand,
                       size_t input) const {
    std::string reason = exclusions_.ReasonFor(node);
    if (reason.empty() && !weight_) reason = "weights=none";
    if (reason.empty()) reason = ConstantReason(value);
    if (!reason.empty()) return FloatRow(value, Role::kWeight, reason);
    const std::span<const int64_t> dims = model_.Initializer(value).dims;
    const auto rank = static_cast<int64_t>(dims.size());
    if (operand.axis < 0 || operand.axis >= rank) {
      return FloatRow(value, Role::kWeight,
                      fmt::format("rank {} has no axis {} to block along", rank, operand.axis));
    }
    if (weight_->is_integer()) return IntegerWeightRow(node, value, operand, input);
    const WeightLayout layout =
        LayoutWeight(node, operand, dims, weight_->block_size, config_.short_axis);
    TensorPlan row = QuantizedRow(value, Role::kWeight, *weight_, layout.axis);
    row.flatten = layout.flatten;
    return row;
  }

  // Why a constant cannot be quantized, or "".
  std::string ConstantReason(const std::string& value) const {
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

  // Why an activation stays float whatever reads it, or "".
  std::string ActivationReason(const std::string& value) const {
    const std::optional<Node> producer = model_.Producer(value);
    if (producer && IsQuantizer(*producer)) return "already quantized by " + producer->Describe();
    if (!activation_) return "activations=none";
    const graph::ValueInfo info = model_.InfoOf(value);
    if (info.type != DataType::kUndefined && info.type != DataType::kFloat &&
        info.type != DataType::kFloat16) {
      return fmt::format("its type is {}; only FLOAT and FLOAT16 are quantized",
                         DataTypeName(info.type));
    }
    if (info.has_shape && info.shape.empty()) return "scalar";
    if (info.type == DataType::kFloat16 && !HasHalfOperator(config_.operators, *activation_)) {
      return "its type is FLOAT16; com.amd.quark's Q/DQ pairs give FLOAT";
    }
    return "";
  }

  TensorPlan ActivationRow(const Node& node, const std::string& value, int64_t axis) const {
    std::string reason = exclusions_.ReasonFor(node);
    if (reason.empty()) reason = ActivationReason(value);
    const int64_t rank = RankOf(value);
    if (reason.empty() && rank >= 0 && (axis < -rank || axis >= rank)) {
      reason = fmt::format("rank {} has no axis {} to block along", rank, axis);
    }
    if (!reason.empty()) return FloatRow(value, Role::kActivation, reason);
    return QuantizedRow(value, Role::kActivation, *activation_,
                        axis < 0 && rank >= 0 ? axis + rank : axis);
  }

  // Placement all: an input of an operator that does not multiply.
  void PlanOtherInput(const Node& node, size_t input) {
    const std::string& value = node.input(input);
    const graph::ValueInfo info = model_.InfoOf(value);
    if (!IsFloat(info.type) || Contains(kShapeReaders, node.op_type())) return;
    if (model_.IsInitializer(value)) {
      // Scalars such as the limits of a Clip are parameters of the operator: nobody asks for them.
      if (info.shape.empty()) return;
      Add(FloatRow(value, Role::kWeight,
                   fmt::format("a constant of {}, which does not multiply", node.op_type())),
          node, input);
      return;
    }
    Add(DefaultAxisRow(node, value), node, input);
  }

  // Placement all: what becomes of a value apart from the compute operators.
  TensorPlan DefaultAxisRow(const Node& node, const std::string& value) const {
    const int64_t rank = RankOf(value);
    if (rank < 0 && activation_ && activation_->is_blocked()) {
      const std::string reason = exclusions_.ReasonFor(node);
      return FloatRow(value, Role::kActivation,
                      reason.empty() ? "its rank is not known, so neither is the axis" : reason);
    }
    int64_t axis = rank == 1 ? 0 : 1;
    if (Contains(kSoftmaxes, node.op_type()) && node.input(0) == value) {
      // Before opset 13 the default axis was 1.
      axis = node.GetInt("axis", plan_.opset >= 13 ? -1 : 1);
    }
    return ActivationRow(node, value, axis);
  }

  // Bodies of control flow are not changed: their compute operators are listed with this reason.
  void ListBodyNode(const graph::BodyNode& inner) {
    for (size_t i = 0; i < inner.node.num_inputs(); ++i) {
      const std::optional<Operand> operand = OperandOf(inner.node, i, -1);
      if (!operand || inner.node.input(i).empty()) continue;
      const bool is_weight = inner.is_constant[i] || operand->slot == Slot::kKernel;
      const Role role = operand->slot == Slot::kBias ? Role::kBias
                        : is_weight                  ? Role::kWeight
                                                     : Role::kActivation;
      Add(FloatRow(inner.node.input(i), role, "inside the body of " + inner.owner.Describe()),
          inner.node, i);
    }
  }

  // Placement all: outputs of the model get their quantizer last; bodies of control flow read the
  // float value.
  void PlanOutputs(const Node& node) {
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const std::string& value = node.output(i);
      if (value.empty() || !IsFloat(model_.InfoOf(value).type)) continue;
      if (model_.IsOutput(value)) {
        TensorPlan row = DefaultAxisRow(node, value);
        RowLike(std::move(row)).is_graph_output = true;
      }
    }
  }

  const QuantConfig& config_;
  const Model& model_;
  NodeIndex nodes_;
  Exclusions exclusions_;
  std::optional<FormatSpec> activation_;
  std::optional<FormatSpec> weight_;
  std::optional<FormatSpec> bias_;
  Placement placement_;
  std::set<std::string> qdq_values_;
  bool has_quantized_weights_;
  QuantPlan plan_;
  std::map<std::string, std::vector<size_t>> rows_of_value_;
};

}  // namespace

QuantPlan MakePlan(const QuantConfig& config, const Model& model, std::string model_name) {
  QuantPlan plan = Planner(config, model).Run();
  plan.model_name = std::move(model_name);
  return plan;
}

}  // namespace bitpress::plan
