// The native form of an integer weight: the bytes that ONNX Runtime's operators compute from,
// com.microsoft MatMulNBits (a matrix product), QMoE (stacks of matrices) and GatherBlockQuantized
// (rows of a table). All see rows of codes, in blocks that share a scale. Passes that write such
// nodes, and those that read the weights of any model, use it. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "formats/pack.h"
#include "graph/model.h"
#include "ops/expert_inputs.h"

namespace bitpress::weights {

inline constexpr const char* kNativeDomain = "com.microsoft";
inline constexpr const char* kMatMulNBits = "MatMulNBits";
inline constexpr const char* kGatherBlockQuantized = "GatherBlockQuantized";
// No operator reads codes of so many bits. A function in front of it makes wide ones of them
// (widen_codes.h).
inline constexpr int kNarrowBits = 3;
inline constexpr int kWideBits = 4;

// The layout of one weight.
struct NativeForm {
  int bits = 4;            // bits of a code
  int64_t num_rows = 0;    // output channels N of a MatMulNBits, or rows of a table
  int64_t row_length = 0;  // inputs K of a MatMulNBits, or columns of a table
  int64_t block_size = 32;
  bool has_zero_points = false;
  bool is_matmul = true;
  int64_t num_stacked = 0;  // matrices of a QMoE, whose rows these are together; 0: no stack
  // Codes have 3 bits in the file. The node in front of the operator makes `bits` of them.
  bool is_widened = false;

  int64_t num_blocks() const { return (row_length - 1) / block_size + 1; }
  // Return the type and the dimensions of the three inputs.
  DataType code_type() const;
  std::vector<int64_t> code_dims() const;
  std::vector<int64_t> scale_dims() const;
  std::vector<int64_t> zero_point_dims() const;
  // Return the number of codes from the beginning of one row to that of the next.
  int64_t code_stride() const;
  int64_t zero_point_stride() const;
  // Returns the code in the file that means zero if the node reads no zero points.
  int64_t middle() const;
  // Returns the bits of a code in the file.
  int stored_bits() const { return is_widened ? kNarrowBits : bits; }
  // Returns the dimensions of the codes in the file, whose type is UINT8 if they are widened.
  std::vector<int64_t> stored_dims() const;
  // Returns "int4" without zero points, "uint4" with them, by the bits in the file.
  std::string format() const;
};

// Returns the bytes of `num_rows` rows of `length` codes each, `stride` codes apart, packed as
// formats/pack.h says. code(row, i) gives one of them in its low bits. REQUIRES: 1 <= bits <= 8,
// length <= stride.
template <typename Code>
std::vector<std::byte> PackRows(int bits, int64_t num_rows, int64_t length, int64_t stride,
                                const Code& code) {
  BITPRESS_DCHECK(length <= stride);
  std::vector<std::byte> bytes(formats::PackedBytes(static_cast<size_t>(num_rows * stride), bits));
  constexpr int64_t kRows = 8;  // whole groups, whatever the bits
  for (int64_t first = 0; first < num_rows; first += kRows) {
    const int64_t count = std::min(kRows, num_rows - first);
    std::vector<uint8_t> codes(static_cast<size_t>(count * stride));
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < length; ++i) {
        codes[static_cast<size_t>(row * stride + i)] =
            static_cast<uint8_t>(static_cast<uint64_t>(int64_t{code(first + row, i)}));
      }
    }
    auto* const begin = reinterpret_cast<uint8_t*>(bytes.data()) +
                        formats::PackedBytes(static_cast<size_t>(first * stride), bits);
    formats::PackCodes(codes, bits, {begin, formats::PackedBytes(codes.size(), bits)});
  }
  return bytes;
}

// Returns the form of the weight that a MatMulNBits or GatherBlockQuantized node reads, whoever
// wrote it. Returns nothing for another operator, and for a weight that this room cannot decode:
// inputs that are no constants, scales that are not FLOAT, reordered columns. Throws
// Error(kInvalidModel) naming the node if sizes do not fit.
std::optional<NativeForm> NativeFormOf(const graph::Model& model, const graph::Node& node);

// The names of the initializers that hold the weight of a MatMulNBits or GatherBlockQuantized.
struct NativeParts {
  std::string codes;
  std::string scales;
  std::string zero_points;  // "" if there are none
  std::string widened;      // the value that the node reads as codes, if a function gives it

  std::vector<std::string> names() const;  // codes, scales and, if there are any, zero points
};
// Returns the names, whether or not they are those of constants.
NativeParts NativePartsOf(const graph::Model& model, const graph::Node& node);

// One weight of a QMoE: its form, and its inputs. A weight without zero points has no input of
// them.
struct ExpertsForm {
  NativeForm form = {};
  ops::ExpertInputs inputs = {};
};
// Returns the forms of the first and the second weight of a QMoE, whoever wrote it. Returns nothing
// for another operator, and for weights that this room cannot decode: no constants, scales that are
// not FLOAT, floats of 4 or 8 bits, prepacked layouts, a third weight, separate shares of experts.
// Throws Error(kInvalidModel) naming the node if sizes do not fit.
std::vector<ExpertsForm> ExpertsFormsOf(const graph::Model& model, const graph::Node& node);

// Decodes a weight into floats: [row_length, num_rows] of a MatMulNBits, as MatMul reads it, and
// [num_rows, row_length] of a table or of a stack. Bytes of zero points are empty if there are
// none. Any bytes of the right sizes have a result. REQUIRES: y has as many elements.
void DecodeNative(const NativeForm& form, std::span<const std::byte> codes,
                  std::span<const std::byte> scales, std::span<const std::byte> zero_points,
                  std::span<float> y, ThreadPool& pool);

}  // namespace bitpress::weights
