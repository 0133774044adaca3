#include "deploy/work_shares.h"

#include <map>
#include <string>

#include "graph/own_domain.h"
#include "ops/integer_operators.h"
#include "ops/multiply_adds.h"

namespace bitpress::deploy {
namespace {

bool IsOurProduct(const graph::Node& node) {
  const std::string& op = node.op_type();
  return node.domain() == graph::kOwnDomain && (op.starts_with("MatMul") || op.starts_with("Conv"));
}

double& ShareOf(const graph::Node& node, WorkShares& shares) {
  if (IsOurProduct(node) || node.op_type() == "MatMulNBits" || node.op_type() == "QMoE")
    return shares.codes;
  return ops::IsIntegerOperator(node) ? shares.integers : shares.floats;
}

}  // namespace

WorkShares CountWork(const graph::Model& graph, const std::vector<OperatorRun>& run) {
  std::map<std::string, graph::Node> nodes;
  for (const graph::Node& node : graph.AllNodes()) {
    if (!ops::GivesIndices(graph, node)) nodes.emplace(node.name(), node);
  }
  WorkShares shares;
  for (const OperatorRun& ran : run) {
    const auto node = nodes.find(ran.node);
    if (node == nodes.end()) continue;
    // The profile leaves out constants whose kernels hold a copy in another layout.
    ops::ProductShapes shapes = ops::KnownShapes(graph, node->second);
    shapes.data = ran.input;
    shapes.output = ran.output;
    ShareOf(node->second, shares) += ops::MultiplyAdds(node->second, shapes);
  }
  return shares;
}

}  // namespace bitpress::deploy
