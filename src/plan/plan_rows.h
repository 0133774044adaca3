// The maker of rows of a plan: it decides what becomes of one tensor where one node reads it, by
// that node's treatment (node_rules.h). MakePlan and the passes over plans use it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "graph/model.h"
#include "ops/compute_ops.h"
#include "plan/node_rules.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// Returns whether scales of activations are computed at every inference.
inline bool IsDynamic(const Treatment& treatment) {
  return treatment.activation && treatment.config.activation_range.is_dynamic();
}

// Makes rows for one model.
class RowMaker {
 public:
  // Both must outlive it.
  RowMaker(const graph::Model& model, const NodeRules& rules);

  // Returns the row of a tensor that stays float.
  static TensorPlan Float(const std::string& value, Role role, std::string reason);
  // Returns the row of a tensor that gets the format `spec`. `axis` counts only if the format has
  // blocks.
  static TensorPlan Quantized(const std::string& value, Role role, const formats::FormatSpec& spec,
                              const Treatment& treatment, int64_t axis);

  // Gives each row of a recurrent weight [directions, gates * hidden, inputs] a scale of its own.
  // The rows become blocks, because no single axis has as many indices. REQUIRES: row.integer is
  // there, three dims.
  static void MakeRowsOfStack(std::span<const int64_t> dims, TensorPlan& row);

  // Returns why the constant `bias` of a node cannot be an int32 with the scale of its products, or
  // "". A grouped ConvTranspose is such a node: its weight has fewer channels than its output.
  // REQUIRES: both are initializers, the bias and the node's weight.
  static std::string WhyNoBiasOfProducts(const graph::Model& model, const graph::Node& node,
                                         const std::string& bias);

  // Returns the row of an activation that the node reads. Blocks run along `axis`.
  TensorPlan Activation(const graph::Node& node, const std::string& value, int64_t axis) const;
  // Returns the row of a constant weight.
  TensorPlan Weight(const graph::Node& node, size_t input, const ops::Operand& operand) const;
  // Returns the row of a table that a Gather looks rows up in. Returns nothing for other inputs,
  // and if tables stay float.
  std::optional<TensorPlan> Table(const graph::Node& node, size_t input) const;
  // Returns the row of a large constant that stays float although the configuration has a format
  // for weights: a table, if there is no format for tables, or a constant of an operator that is
  // not quantized, such as an Einsum or the state of a Loop. Returns nothing for other inputs.
  std::optional<TensorPlan> FloatConstant(const graph::Node& node, size_t input) const;
  // Returns the row of a weight that is no constant of the model: it stays float.
  TensorPlan DynamicWeight(const graph::Node& node, const std::string& value) const;
  // Returns whether the node's weight becomes integers with one scale, or one for each channel.
  // REQUIRES: the node is a compute operator, or recurrent.
  bool MultipliesIntegers(const graph::Node& node) const;
  // Returns the row of a bias. `is_of_integers` says that it is added to products of integers whose
  // scales are known. It becomes an int32 with their scale then, unless the configuration gives
  // biases an integer format with a scale of its own.
  TensorPlan Bias(const graph::Node& node, const std::string& value, const ops::Operand& operand,
                  bool is_of_integers) const;

  // Returns why an activation stays float whatever reads it, or "".
  std::string ActivationReason(const std::string& value, const Treatment& treatment) const;
  // Returns why a constant cannot be quantized, or "".
  std::string ConstantReason(const std::string& value) const;
  // Returns whether the value is a constant behind a quantizer, as in models of other tools.
  bool IsQuantizedConstant(const std::string& value) const;
  // Returns the rank of a value, -1 if it is not known.
  int64_t RankOf(const std::string& value) const;

 private:
  // Returns whether the node looks up rows of a float constant.
  bool IsTable(const graph::Node& node, size_t input) const;
  TensorPlan IntegerWeight(const graph::Node& node, size_t input, const ops::Operand& operand,
                           const Treatment& treatment) const;
  TensorPlan IntegerBias(const graph::Node& node, const std::string& value) const;

  const graph::Model& model_;
  const NodeRules& rules_;
  bool has_quantized_weights_;
};

}  // namespace bitpress::plan
