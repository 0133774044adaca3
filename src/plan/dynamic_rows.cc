#include "plan/dynamic_rows.h"

#include <set>
#include <string>

#include "base/error.h"
#include "ops/compute_ops.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"

namespace bitpress::plan {
namespace {

using graph::Node;

// Returns whether the node is a recurrent operator that has a form on integers (LSTM).
bool IsLstm(const Node& node) {
  const ops::OperatorTraits& traits = ops::TraitsOf(node);
  return traits.is_recurrent() && !traits.dynamic.empty();
}

// Returns the inputs of a node that are weights. Input 0 is the activation.
bool IsWeightInput(const Node& node, size_t input) {
  return input == 1 || (IsLstm(node) && input == 2);
}

class DynamicNode {
 public:
  DynamicNode(const graph::Model& model, const NodeRules& rules, const RowMaker& rows,
              const Node& node)
      : model_(model), rules_(rules), rows_(rows), node_(node) {}

  // Returns why the node stays float, or "". It stays float if its integer operator cannot do all
  // that it does.
  std::string Reason() const {
    const ops::OperatorTraits& traits = ops::TraitsOf(node_);
    std::string reason = ActivationReason();
    for (const size_t input : {size_t{1}, size_t{2}}) {
      if (reason.empty() && IsWeightInput(node_, input)) reason = WeightReason(input);
    }
    if (!reason.empty()) return reason;
    if (traits.dynamic.empty()) {
      return fmt::format("{} has no dynamic integer form", node_.op_type());
    }
    if (traits.product == ops::Product::kGemm) {
      const bool is_plain = node_.GetInt("transA", 0) == 0 && node_.GetFloat("alpha", 1) == 1 &&
                            node_.GetFloat("beta", 1) == 1;
      return is_plain ? "" : "transA, alpha and beta have no integer form";
    }
    if (traits.is_convolution()) {
      const bool has_bias = node_.num_inputs() > 2 && !node_.input(2).empty();
      return has_bias && !model_.IsInitializer(node_.input(2)) ? "dynamic bias" : "";
    }
    return node_.GetInt("layout", 0) == 0 ? "" : "layout 1 has no integer form";
  }

  TensorPlan Row(size_t input) const {
    const std::string& value = node_.input(input);
    const Role role = input == 0                    ? Role::kActivation
                      : IsWeightInput(node_, input) ? Role::kWeight
                                                    : Role::kBias;
    const std::string reason = Reason();
    if (!reason.empty()) return RowMaker::Float(value, role, reason);
    const Treatment& treatment = rules_.For(node_, value);
    if (role == Role::kBias) {
      return RowMaker::Float(value, role, "added to the products as floats");
    }
    if (role == Role::kActivation) {
      TensorPlan row = RowMaker::Quantized(value, role, *treatment.activation, treatment, 0);
      row.integer->is_symmetric = false;
      row.integer->scale_kind = formats::ScaleKind::kFloat;
      if (!TakesRows()) row.integer->range.kind = RangeMethod::Kind::kDynamic;
      return row;
    }
    return WeightRow(value, input, treatment);
  }

 private:
  // Returns whether each row of the activation can have a scale: it can in a product with one
  // matrix.
  bool TakesRows() const {
    return ops::TraitsOf(node_).is_matrix_product() &&
           model_.Initializer(node_.input(1)).dims.size() == 2;
  }

  std::string ActivationReason() const {
    const std::string& value = node_.input(0);
    const Treatment& treatment = rules_.For(node_, value);
    if (!treatment.excluded.empty()) return treatment.excluded;
    if (model_.IsInitializer(value)) return "its first operand is a constant";
    if (!IsDynamic(treatment)) return "a rule for its first operand";
    const std::string reason = rows_.ActivationReason(value, treatment);
    if (!reason.empty()) return reason;
    return model_.InfoOf(value).type == DataType::kFloat16
               ? "DynamicQuantizeLinear takes FLOAT only"
               : "";
  }

  std::string WeightReason(size_t input) const {
    const std::string& value = node_.input(input);
    const Treatment& treatment = rules_.For(node_, value);
    if (!treatment.excluded.empty()) return treatment.excluded;
    if (!treatment.weight) return "weights=none";
    if (treatment.weight->name != "int8" && treatment.weight->name != "uint8") {
      return fmt::format("its weights are {}; dynamic integers need int8 or uint8",
                         treatment.weight->name);
    }
    if (treatment.config.weight_granularity == Granularity::kPerBlock) {
      return "weights in blocks have no dynamic form";
    }
    if (!model_.IsInitializer(value)) return "its second operand is computed at run time";
    const std::string reason = rows_.ConstantReason(value);
    if (!reason.empty()) return reason;
    const graph::InitializerView weight = model_.Initializer(value);
    if (weight.type != DataType::kFloat) return "DynamicQuantizeLinear takes FLOAT only";
    if (IsLstm(node_)) return weight.dims.size() == 3 ? "" : "its weight has not three dimensions";
    return weight.dims.size() < 2 ? "its weight is a vector" : "";
  }

  TensorPlan WeightRow(const std::string& value, size_t input, const Treatment& treatment) const {
    TensorPlan row = RowMaker::Quantized(value, Role::kWeight, *treatment.weight, treatment, 0);
    const auto rank = static_cast<int64_t>(model_.Initializer(value).dims.size());
    row.integer->granularity = treatment.config.weight_granularity;
    if (IsLstm(node_)) {
      // The operator takes scales of rows, but no zero points of rows.
      if (row.integer->granularity == Granularity::kPerAxis && row.integer->is_symmetric) {
        RowMaker::MakeRowsOfStack(model_.Initializer(value).dims, row);
      } else {  // one for each direction, which is a network of its own
        row.integer->granularity = Granularity::kPerAxis;
        row.axis = 0;
      }
      return row;
    }
    const bool is_per_axis = row.integer->granularity == Granularity::kPerAxis;
    if (is_per_axis && !ops::TakesChannelScales(node_, input, rank)) {
      // Each column of each of the stacked matrices is a block.
      row.integer->granularity = Granularity::kPerBlock;
      row.axis = rank - 2;
      row.integer->block_size = model_.Initializer(value).dims[static_cast<size_t>(*row.axis)];
      return row;
    }
    // ConvInteger takes one zero point for the whole weight.
    if (ops::TraitsOf(node_).is_convolution() && !row.integer->is_symmetric) {
      row.integer->granularity = Granularity::kPerTensor;
    }
    if (row.integer->granularity == Granularity::kPerAxis) {
      row.axis = ops::ChannelAxis(node_, input, rank);
    }
    return row;
  }

  const graph::Model& model_;
  const NodeRules& rules_;
  const RowMaker& rows_;
  const Node& node_;
};

}  // namespace

std::optional<TensorPlan> DynamicRow(const graph::Model& model, const NodeRules& rules,
                                     const RowMaker& rows, const Node& node, size_t input) {
  const size_t num_inputs = IsLstm(node) ? 4 : 3;
  if ((!ops::TraitsOf(node).is_product() && !IsLstm(node)) || input >= num_inputs)
    return std::nullopt;
  const bool is_asked =
      IsDynamic(rules.For(node)) || (input == 0 && IsDynamic(rules.For(node, node.input(0))));
  if (!is_asked || IsFloatConvolution(rules, node)) return std::nullopt;
  return DynamicNode(model, rules, rows, node).Row(input);
}

bool IsFloatConvolution(const NodeRules& rules, const Node& node) {
  return ops::TraitsOf(node).is_convolution() &&
         rules.For(node).config.activation_range.kind == RangeMethod::Kind::kDynamicRows;
}

size_t NumDynamicConvolutions(const QuantPlan& plan) {
  std::set<std::string> nodes;
  for (const TensorPlan& row : plan.tensors) {
    if (!row.is_dynamic()) continue;
    for (const TensorUse& use : row.uses) {
      if (ops::TraitsNamed(use.op_type).is_convolution()) nodes.insert(use.node);
    }
  }
  return nodes.size();
}

}  // namespace bitpress::plan
