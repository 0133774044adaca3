// Rows of a plan: what becomes of one tensor where one node reads it, by that node's treatment.
// Pure.
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

// Whether scales of activations are computed at every inference.
inline bool IsDynamic(const Treatment& treatment) {
  return treatment.activation && treatment.config.activation_range.is_dynamic();
}

class RowMaker {
 public:
  // Both must outlive it.
  RowMaker(const graph::Model& model, const NodeRules& rules);

  static TensorPlan Float(const std::string& value, Role role, std::string reason);
  // `axis` is only read where the format has blocks.
  static TensorPlan Quantized(const std::string& value, Role role, const formats::FormatSpec& spec,
                              const Treatment& treatment, int64_t axis);

  // Gives each row of a recurrent weight [directions, gates * hidden, inputs] its scale: blocks as
  // long as a row, because one axis has not that many. REQUIRES: row.integer is there, three dims.
  static void MakeRowsOfRecurrent(std::span<const int64_t> dims, TensorPlan& row);

  TensorPlan Activation(const graph::Node& node, const std::string& value, int64_t axis) const;
  TensorPlan Weight(const graph::Node& node, size_t input, const ops::Operand& operand) const;
  // A table whose rows a Gather looks up; nothing for other inputs, and where tables stay float.
  std::optional<TensorPlan> Table(const graph::Node& node, size_t input) const;
  // A weight that is not a constant of the model.
  TensorPlan DynamicWeight(const graph::Node& node, const std::string& value) const;
  // Whether the weight becomes integers with one scale, or one for each channel. REQUIRES: the node
  // is a compute operator, or recurrent.
  bool MultipliesIntegers(const graph::Node& node) const;
  // `is_of_integers`: it is added to products of integers whose scales are known. It takes their
  // scale as an int32 then, unless it is to have an integer format with a scale of its own.
  TensorPlan Bias(const graph::Node& node, const std::string& value, const ops::Operand& operand,
                  bool is_of_integers) const;

  // Why an activation stays float whatever reads it, or "".
  std::string ActivationReason(const std::string& value, const Treatment& treatment) const;
  // Why a constant cannot be quantized, or "".
  std::string ConstantReason(const std::string& value) const;
  // Whether a constant comes through a quantizer, as in models of other tools.
  bool IsQuantizedConstant(const std::string& value) const;
  // -1: not known.
  int64_t RankOf(const std::string& value) const;

 private:
  TensorPlan IntegerWeight(const graph::Node& node, size_t input, const ops::Operand& operand,
                           const Treatment& treatment) const;
  TensorPlan IntegerBias(const graph::Node& node, const std::string& value) const;

  const graph::Model& model_;
  const NodeRules& rules_;
  bool has_quantized_weights_;
};

}  // namespace bitpress::plan
