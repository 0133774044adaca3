// The native form of an integer weight: the bytes that ONNX Runtime's operators compute from,
// com.microsoft MatMulNBits (a matrix product), QMoE (stacks of matrices) and GatherBlockQuantized
// (rows of a table). All see rows of codes, in blocks that share a scale. Passes that write such
// nodes, and those that read the weights of any model, use it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "ops/expert_inputs.h"

namespace bitpress::weights {

inline constexpr const char* kNativeDomain = "com.microsoft";
inline constexpr const char* kMatMulNBits = "MatMulNBits";
inline constexpr const char* kGatherBlockQuantized = "GatherBlockQuantized";

// The layout of one weight.
struct NativeForm {
  int bits = 4;            // bits of a code
  int64_t num_rows = 0;    // output channels N of a MatMulNBits, or rows of a table
  int64_t row_length = 0;  // inputs K of a MatMulNBits, or columns of a table
  int64_t block_size = 32;
  bool has_zero_points = false;
  bool is_matmul = true;
  int64_t num_stacked = 0;  // matrices of a QMoE, whose rows these are together; 0: no stack

  int64_t num_blocks() const { return (row_length - 1) / block_size + 1; }
  // Return the type and the dimensions of the three inputs.
  DataType code_type() const;
  std::vector<int64_t> code_dims() const;
  std::vector<int64_t> scale_dims() const;
  std::vector<int64_t> zero_point_dims() const;
  // Return the number of codes from the beginning of one row to that of the next.
  int64_t code_stride() const;
  int64_t zero_point_stride() const;
  // Returns the code that means zero if the node reads no zero points.
  int64_t middle() const;
  // Returns "int4" without zero points, "uint4" with them.
  std::string format() const;
};

// Returns the bytes of `num_rows` rows of `length` codes each, `stride` codes apart. code(row, i)
// gives one of them in its low bits. REQUIRES: `bits` divides 8, and length <= stride.
template <typename Code>
std::vector<std::byte> PackRows(int bits, int64_t num_rows, int64_t length, int64_t stride,
                                const Code& code) {
  BITPRESS_DCHECK(bits > 0 && 8 % bits == 0 && length <= stride);
  const auto per_byte = static_cast<size_t>(8 / bits);
  const auto mask = (uint64_t{1} << static_cast<unsigned>(bits)) - 1;
  const auto num_codes = static_cast<size_t>(num_rows * stride);
  std::vector<std::byte> bytes((num_codes + per_byte - 1) / per_byte);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<size_t>(row * stride + i);
      const uint64_t number = static_cast<uint64_t>(int64_t{code(row, i)}) & mask;
      bytes[at / per_byte] |=
          static_cast<std::byte>(number << (at % per_byte * static_cast<size_t>(bits)));
    }
  }
  return bytes;
}

// Returns the form of the weight that a MatMulNBits or GatherBlockQuantized node reads, whoever
// wrote it. Returns nothing for another operator, and for a weight that this room cannot decode:
// inputs that are no constants, scales that are not FLOAT, reordered columns. Throws
// Error(kInvalidModel) naming the node if sizes do not fit.
std::optional<NativeForm> NativeFormOf(const graph::Model& model, const graph::Node& node);

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
