#include "custom_ops/block_node.h"

#include <optional>
#include <utility>

namespace bitpress::custom_ops {

BlockNode::BlockNode(const NodeInfo& node, formats::FormatSpec spec, AxisRule rule)
    : spec_(std::move(spec)), axis_(node.Int("axis", 1)), rule_(rule) {
  formats::Validate(spec_);
  if (const std::optional<int64_t> rank = node.InputRank(0)) Axis(*rank);
}

int64_t BlockNode::Axis(int64_t rank) const {
  if (!spec_.is_blocked()) return 0;
  if (rule_ == AxisRule::kQuark && rank == 1) return 0;
  return AxisFromFront(axis_, rank);
}

cuda::Shape BlockNode::ShapeOf(const std::vector<int64_t>& dims, size_t count) const {
  cuda::Shape shape;
  if (!spec_.is_blocked() || dims.empty()) {
    shape.length = static_cast<int64_t>(count);
    return shape;
  }
  const auto axis = static_cast<size_t>(Axis(static_cast<int64_t>(dims.size())));
  for (size_t i = 0; i < axis; ++i) shape.outer *= dims[i];
  shape.length = dims[axis];
  for (size_t i = axis + 1; i < dims.size(); ++i) shape.inner *= dims[i];
  return shape;
}

}  // namespace bitpress::custom_ops
