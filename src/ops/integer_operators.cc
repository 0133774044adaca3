#include "ops/integer_operators.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ops/operator_traits.h"

namespace bitpress::ops {

bool IsQuantize(const graph::Node& node) { return node.op_type() == "QuantizeLinear"; }
bool IsDequantize(const graph::Node& node) { return node.op_type() == "DequantizeLinear"; }

bool IsIntegerOperator(const graph::Node& node) {
  const std::string& op = node.op_type();
  return TraitsNamed(op).codes.product != Product::kNone || op.starts_with("QLinear") ||
         op.starts_with("QOrdered") || op == "QMoE" || op == "MatMulNBits";
}

bool GivesIndices(const graph::Model& model, const graph::Node& node) {
  if (node.op_type() != "MatMulInteger") return false;
  const std::vector<graph::Use> uses = model.Uses(node.output(0));
  return !uses.empty() && std::ranges::all_of(uses, [](const graph::Use& use) {
    return use.node.op_type() == "Gather" && use.input_index == 1;
  });
}

std::string WhyNoIntegerForm(const graph::Node& node) {
  const std::string_view lacks = TraitsOf(node).lacks;
  return !lacks.empty() && node.HasAttribute(lacks) ? fmt::format("it has {}", lacks) : "";
}

bool TakesChannelScales(const graph::Node& node, size_t input, int64_t rank) {
  return input == 1 && (TraitsOf(node).is_convolution() || rank == 2);
}

}  // namespace bitpress::ops
