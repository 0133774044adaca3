// Packed weights in a model: the initializers that hold the bits of formats/packed_tensor.h, and
// the model-local function `bitpress.Unpack_<format>` that decodes them with standard operators.
// The operators are of kinds that ONNX Runtime folds into constants when it loads the model
// (lookups, casts, products; no DequantizeLinear, which it keeps), so that inference costs nothing.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"

namespace bitpress::weights {

// A tensor as its blocks see it: [outer, axis, inner], blocks along the middle dimension.
struct BlockView {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;

  int64_t num_elements() const { return outer * axis * inner; }
};

// What the names of these functions begin with, and where padding behind the codes is cut off, end
// with.
inline constexpr const char* kUnpackPrefix = "Unpack_";
inline constexpr const char* kPaddedSuffix = "_padded";

// How one weight is stored, and the node that decodes it.
struct PackedStorage {
  struct Initializer {
    std::string suffix;  // of the initializer's name: "codes", "low_codes", "scales", "shifts"
    DataType type = DataType::kUInt8;
    std::vector<int64_t> dims;
  };
  std::vector<Initializer> parts;  // inputs of the node, in this order
  graph::FunctionSpec function;
  std::vector<std::pair<std::string, graph::Attribute>> attributes;  // of the node
};

// The oldest standard operator set that the functions are written in, and the one from which on
// FP8 codes are tensors of an FP8 type instead of bytes.
inline constexpr int64_t kFirstPackedOpset = 13;
inline constexpr int64_t kFirstFloat8Opset = 19;

// Whether codes of the format have an FP8 type in ONNX.
bool HasFloat8Codes(const formats::FormatSpec& spec);

// REQUIRES: formats::WhyNotPackable(spec) is empty; `view` has as many elements as `shape`, more
// than none; opset >= kFirstPackedOpset.
PackedStorage StoragePacked(const formats::FormatSpec& spec, std::span<const int64_t> shape,
                            const BlockView& view, int64_t opset);

// What an Unpack node decodes. Throws Error(kInvalidModel) naming the node if it is one, but not as
// this room writes them; nothing if it is another operator.
struct PackedWeight {
  // Integers: scales and zero points of their own.
  struct Integer {
    int64_t block_size = 0;      // elements of the axis that share a scale
    bool is_per_column = false;  // scales differ along outer and inner, too
    int64_t zero_point = 0;      // of all codes, where the node reads none
    bool has_zero_points = false;
  };
  formats::FormatSpec spec;
  std::vector<int64_t> shape;
  BlockView view;
  std::optional<Integer> integer;  // exactly the integer formats have it
};
std::optional<PackedWeight> PackedWeightOf(const graph::Model& model, const graph::Node& node);

// --- Parts of the above that integers share
// ----------------------------------------------------------------------------------------

// Blocks as equal parts of the axis that do not cross a block's end, so that a product with one
// scale each is a broadcast: [outer, parts, length, inner].
std::vector<int64_t> EqualParts(const BlockView& view, int64_t block_size);
// The initializer of a plane of packed codes; groups with spare bits are its rows.
PackedStorage::Initializer PlaneInitializer(std::string suffix, int bits, size_t num_bytes);
// Throws Error(kInvalidModel): a node is called as those of this room, but does something else.
[[noreturn]] void FailNotOurs(std::string_view what);
// Fills in shape and view from the node's attributes.
void ReadShape(const graph::Node& node, PackedWeight& weight);

}  // namespace bitpress::weights
