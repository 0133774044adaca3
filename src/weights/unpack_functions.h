// The form of a packed weight in a model: the initializers that hold the bits of
// formats/packed_tensor.h, and the model-local function `bitpress.Unpack_<format>` that decodes
// them with standard operators. Passes that store weights, and those that read them back, use it.
// Pure.
//
// ONNX Runtime folds these operators into constants when it loads the model, so that inference
// costs nothing: lookups, casts and products, but no DequantizeLinear, which it keeps. Most weights
// of block formats have the body of unpack_groups.h, the others a general one.
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

// A tensor seen as [outer, axis, inner], with blocks along the middle dimension.
struct BlockView {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;

  int64_t num_elements() const { return outer * axis * inner; }
};

// The beginning of these functions' names, and the end of the name of those that take groups of
// bytes which cross the end of a block, and cut off padding behind the codes.
inline constexpr const char* kUnpackPrefix = "Unpack_";
inline constexpr const char* kPaddedSuffix = "_padded";
// The beginning of the names of products with packed weights, which have the same ends. Those of
// convolutions end with the format of their input.
inline constexpr const char* kProductPrefix = "MatMul_";
inline constexpr const char* kProductClipPrefix = "MatMulClip_";
// The same of lookups in packed tables (lookup_nodes.h).
inline constexpr const char* kLookupPrefix = "Gather_";
inline constexpr const char* kConvolutionPrefix = "Conv_";
inline constexpr const char* kConvolutionAddPrefix = "ConvAdd_";
inline constexpr const char* kInputInfix = "_by_";
// Operators whose nodes say sizes of formats have a number in place of them in their names, so that
// a library can have all of them: MatMul_bfp_1. The formats are words in these attributes.
inline constexpr const char* kFormatAttribute = "format";
inline constexpr const char* kInputFormatAttribute = "input_format";
inline constexpr int kMostNumbers = 4;
// Convolutions that end in a LeakyRelu have it.
inline constexpr const char* kSlopeAttribute = "slope";

// The initializers of one weight, and the node that decodes it.
struct PackedStorage {
  // One of the initializers.
  struct Initializer {
    std::string suffix;  // end of its name: "codes", "low_codes", "scales", "shifts"
    DataType type = DataType::kUInt8;
    std::vector<int64_t> dims;
  };
  std::vector<Initializer> parts;  // inputs of the node, in this order
  graph::FunctionSpec function;
  std::vector<std::pair<std::string, graph::Attribute>> attributes;  // attributes of the node
};

// The oldest standard operator set that the functions are written in, and the first one in which
// FP8 codes are tensors of an FP8 type instead of bytes.
inline constexpr int64_t kFirstPackedOpset = 13;
inline constexpr int64_t kFirstFloat8Opset = 19;

// Returns whether codes of the format have an FP8 type in ONNX.
bool HasFloat8Codes(const formats::FormatSpec& spec);

// Returns the storage of a weight of dimensions `shape` whose blocks lie as `view` says, in a model
// of operator set `opset`. REQUIRES: formats::WhyNotPackable(spec) is empty; `view` has as many
// elements as `shape`, more than none; opset >= kFirstPackedOpset.
PackedStorage StoragePacked(const formats::FormatSpec& spec, std::span<const int64_t> shape,
                            const BlockView& view, int64_t opset);

// A packed weight, as an Unpack node decodes it.
struct PackedWeight {
  // The scales and zero points of integers.
  struct Integer {
    int64_t block_size = 0;      // elements of the axis that share a scale
    bool is_per_column = false;  // scales differ along outer and inner, too
    int64_t zero_point = 0;      // zero point of all codes, if the node reads none
    bool has_zero_points = false;
  };
  formats::FormatSpec spec;
  std::vector<int64_t> shape;
  BlockView view;
  std::optional<Integer> integer;  // exactly the integer formats have it
};
// How a node reads a packed weight.
struct PackedReader {
  enum class Kind { kUnpack, kProduct, kConvolution, kLookup };
  Kind kind = Kind::kUnpack;
  std::string decoder;    // the format's name and what follows it in an Unpack node's name
  size_t first_part = 0;  // the parts are the inputs [first_part, parts_end)
  size_t parts_end = 0;
};
// Returns how a node reads a weight, as its name says: an Unpack node, a matrix product
// (product_nodes.h), a convolution (convolution_nodes.h) or a lookup (lookup_nodes.h). Nothing for
// other nodes.
std::optional<PackedReader> PackedReaderOf(const graph::Node& node);
// Returns the weight that a node decodes, or multiplies with; nothing if it is neither an Unpack
// node nor one that computes with a packed weight. Throws Error(kInvalidModel) naming the node if
// it is one, but not as this room writes them.
std::optional<PackedWeight> PackedWeightOf(const graph::Model& model, const graph::Node& node);

// --- Helpers that packed integers (unpack_integers.h) share ---

// Returns how the elements of a weight without blocks lie along the sums of its reader: a
// convolution, or a product of a matrix, whose columns are the weight's rows if `is_transposed`.
// REQUIRES: two dimensions or more, and none is 0.
BlockView ViewAlongSums(std::span<const int64_t> shape, bool is_transposed);
// Returns [outer, parts, length, inner]: the axis cut into equal parts that do not cross a block's
// end, so that a product with one scale for each part is a broadcast.
std::vector<int64_t> EqualParts(const BlockView& view, int64_t block_size);
// An initializer as it is or will be once the model is written.
struct StoredPart {
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  size_t num_bytes = 0;
};
// Throws the error of FailNotOurs if there is no such initializer.
StoredPart PartOf(const graph::Model& model, const std::string& name);
// Returns the initializer of a plane of packed codes. Groups with spare bits are its rows.
PackedStorage::Initializer PlaneInitializer(std::string suffix, int bits, size_t num_bytes);
// Throws the Error(kInvalidModel) of a node that is called like those of this room, but does
// something else.
[[noreturn]] void FailNotOurs(std::string_view what);
// Fills in shape and view from the node's attributes.
void ReadShape(const graph::Node& node, PackedWeight& weight);

}  // namespace bitpress::weights
