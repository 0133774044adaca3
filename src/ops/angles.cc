#include "ops/angles.h"

#include <ranges>
#include <vector>

#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

using graph::Model;
using graph::Node;

bool IsIntegerOrBool(DataType type) {
  switch (type) {
    case DataType::kUInt8:
    case DataType::kInt8:
    case DataType::kUInt16:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUInt32:
    case DataType::kUInt64:
    case DataType::kBool:
      return true;
    default:
      return false;
  }
}

// Returns whether the node computes numbers of integers and constants alone. `whole` are the values
// that nodes before it compute so.
bool FollowsFromIntegers(const Model& model, const Node& node, const std::set<std::string>& whole) {
  const bool is_range = node.op_type() == "Range";
  if (!is_range && !IsCheapOnElements(node) && !TraitsOf(node).sums_products()) return false;
  bool reads_any = is_range;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::string& value = node.input(i);
    if (value.empty() || model.IsInitializer(value)) continue;
    if (!whole.contains(value) && !IsIntegerOrBool(model.InfoOf(value).type)) return false;
    reads_any = true;
  }
  return reads_any;
}

}  // namespace

std::set<std::string> AnglesOfPositions(const Model& model) {
  std::set<std::string> whole;
  const std::vector<Node> nodes = model.AllNodes();  // in topological order
  for (const Node& node : nodes) {
    if (node.num_outputs() > 0 && FollowsFromIntegers(model, node, whole)) {
      whole.insert(node.output(0));
    }
  }
  std::set<std::string> angles;
  for (const Node& node : nodes | std::views::reverse) {
    const bool is_wave = node.op_type() == "Sin" || node.op_type() == "Cos";
    const bool is_angle = node.num_outputs() > 0 && angles.contains(node.output(0));
    if (!is_wave && !is_angle) continue;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (whole.contains(node.input(i))) angles.insert(node.input(i));
    }
  }
  return angles;
}

}  // namespace bitpress::ops
