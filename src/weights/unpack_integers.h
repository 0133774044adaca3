// Packed integer weights: codes, scales and zero points of a weight whose activations are floats,
// and the model-local function `bitpress.Unpack_<format>` that gives (code - zero_point) * scale
// with operators that ONNX Runtime folds into constants when it loads the model. Pure.
//
// Codes of 2 and 4 bits lie in bytes as formats/pack.h has them, others are tensors of their type.
// Scales are [1, 1, 1] per tensor, [1, axis, 1] per axis and [outer, blocks, inner] per block, zero
// points as many. Symmetric weights have none: theirs is 0, or an attribute of unsigned formats.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// How the scales of a weight lie along [outer, axis, inner].
struct IntegerLayout {
  BlockView view;
  int64_t block_size = 1;      // elements of the axis that share a scale
  bool is_per_column = false;  // scales differ along outer and inner, too
  // Of all codes, 0 where they are signed; nothing: each scale has its own.
  std::optional<int64_t> zero_point;

  int64_t num_blocks() const { return (view.axis - 1) / block_size + 1; }
  std::vector<int64_t> scale_dims() const;
};

// REQUIRES: spec is an integer format; the layout has as many elements as `shape`, more than none.
PackedStorage StoragePackedInteger(const formats::FormatSpec& spec, std::span<const int64_t> shape,
                                   const IntegerLayout& layout);

// For PackedWeightOf: the weight that a node decodes whose function is called Unpack_`word`;
// nothing if that is no integer format. Throws Error(kInvalidModel) if its parts do not fit.
std::optional<PackedWeight> PackedIntegerOf(const graph::Model& model, const graph::Node& node,
                                            std::string_view word);

// The values of the parts of `weight`, in the order of the node's inputs, for any bytes of the
// right sizes. Differences of codes are exact, then rounded to float32, as their product with the
// scale. REQUIRES: weight.integer; y has as many elements as weight.shape.
void UnpackInteger(const PackedWeight& weight, std::span<const std::span<const std::byte>> parts,
                   std::span<float> y, ThreadPool& pool);

}  // namespace bitpress::weights
