// What a node says that quantizes and dequantizes in one step: its format and its axis. The kernels
// of all providers read it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/launch.h"
#include "custom_ops/operator.h"
#include "formats/format_spec.h"

namespace bitpress::custom_ops {

// The meaning of `axis`. Quark's operators leave tensors of one element alone and ignore the axis
// of vectors.
enum class AxisRule { kOurs, kQuark };

class BlockNode {
 public:
  // Throws Error if the format is none, or the input's rank is known and has no such axis.
  BlockNode(const NodeInfo& node, formats::FormatSpec spec, AxisRule rule);

  const formats::FormatSpec& spec() const { return spec_; }
  // Returns whether a tensor of so many elements stays as it is.
  bool PassesThrough(size_t count) const { return rule_ == AxisRule::kQuark && count == 1; }
  // Returns a tensor's shape with the axis in the middle. Throws if there is no such axis.
  cuda::Shape ShapeOf(const std::vector<int64_t>& dims, size_t count) const;

 private:
  // Returns the axis counted from the front. Throws if a tensor of this rank has no such axis.
  int64_t Axis(int64_t rank) const;

  formats::FormatSpec spec_;
  int64_t axis_;
  AxisRule rule_;
};

// Makes the kernel of a node on CUDA. Throws Error if there is no driver for it.
std::unique_ptr<OperatorKernel> MakeCudaBlockKernel(BlockNode node);

}  // namespace bitpress::custom_ops
