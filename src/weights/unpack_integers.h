// The form of a packed integer weight in a model, for weights whose activations are floats: codes,
// scales and zero points, and the model-local function `bitpress.Unpack_<format>` that gives
// (code - zero_point) * scale. ONNX Runtime folds its operators into constants when it loads the
// model. Pure.
//
// Codes of 2, 3 and 4 bits lie in bytes as formats/pack.h has them; others are tensors of their
// type. Scales are [1, 1, 1] per tensor, [1, axis, 1] per axis and [outer, blocks, inner] per
// block. There are as many zero points as scales. Symmetric weights have none: their zero point is
// 0, or an attribute of the node if the format is unsigned.
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

// The layout of a weight's scales along [outer, axis, inner].
struct IntegerLayout {
  BlockView view;
  int64_t block_size = 1;      // elements of the axis that share a scale
  bool is_per_column = false;  // scales differ along outer and inner, too
  // The zero point of all codes, 0 if they are signed; nothing: each scale has its own.
  std::optional<int64_t> zero_point;

  int64_t num_blocks() const { return (view.axis - 1) / block_size + 1; }
  std::vector<int64_t> scale_dims() const;
};

// Returns the storage of a weight of dimensions `shape`. REQUIRES: spec is an integer format; the
// layout has as many elements as `shape`, more than none.
PackedStorage StoragePackedInteger(const formats::FormatSpec& spec, std::span<const int64_t> shape,
                                   const IntegerLayout& layout);

// Returns the weight that a node decodes if its function is called Unpack_`word`; nothing if that
// is no integer format. PackedWeightOf calls it. Throws Error(kInvalidModel) if the inputs do not
// fit.
std::optional<PackedWeight> PackedIntegerOf(const graph::Model& model, const graph::Node& node,
                                            std::string_view word);

// Decodes a weight from the bytes of its initializers, in the order of the node's inputs. Any bytes
// of the right sizes have a result. The exact difference of two codes is rounded to float32, and
// its product with the scale is rounded again. REQUIRES: weight.integer is there; y has as many
// elements as weight.shape.
void UnpackInteger(const PackedWeight& weight, std::span<const std::span<const std::byte>> parts,
                   std::span<float> y, ThreadPool& pool);

}  // namespace bitpress::weights
