// A dense tensor in memory and the ONNX element types, as rooms pass them to each other. Plain
// data, no operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace bitpress {

// The numbers of ONNX TensorProto.DataType (IR version 13).
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
};

// Returns ONNX's name of the type: "FLOAT", "INT8", ...
std::string_view DataTypeName(DataType type);

// Returns the bits of one stored element; 0 for strings and undefined.
constexpr size_t ElementBits(DataType type) {
  switch (type) {
    case DataType::kUInt2:
    case DataType::kInt2:
      return 2;
    case DataType::kUInt4:
    case DataType::kInt4:
    case DataType::kFloat4E2M1:
      return 4;
    case DataType::kUInt8:
    case DataType::kInt8:
    case DataType::kBool:
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat8E8M0:
      return 8;
    case DataType::kUInt16:
    case DataType::kInt16:
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 16;
    case DataType::kFloat:
    case DataType::kInt32:
    case DataType::kUInt32:
      return 32;
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kUInt64:
    case DataType::kComplex64:
      return 64;
    case DataType::kComplex128:
      return 128;
    case DataType::kUndefined:
    case DataType::kString:
      return 0;
  }
  return 0;
}

// Returns whether elements are numbers with an exponent: FLOAT, DOUBLE, FLOAT16 and BFLOAT16.
constexpr bool IsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}

// Returns the product of the dimensions. Throws Error(kInvalidArgument) if a dimension is negative
// or the product does not fit int64.
inline int64_t NumElements(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      Fail(ErrorCode::kInvalidArgument, "shape [{}] is not a tensor's size",
           fmt::join(dims.begin(), dims.end(), ", "));
    }
  }
  return count;
}

// Returns the bytes of `num_elements` elements, of which sub-byte types are packed. Throws
// Error(kInvalidArgument) on overflow.
inline uint64_t NumBytes(DataType type, int64_t num_elements) {
  uint64_t bits = 0;
  if (num_elements < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(num_elements), ElementBits(type), &bits)) {
    Fail(ErrorCode::kInvalidArgument, "{} elements are too many", num_elements);
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

// Returns whether an element of the type has so many bytes, or the type says nothing of it.
constexpr bool IsOfSize(DataType type, size_t num_bytes) {
  return ElementBits(type) == 0 || ElementBits(type) == 8 * num_bytes;
}

// A tensor that owns its bytes, in row-major order.
struct Tensor {
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;

  int64_t num_elements() const { return NumElements(dims); }

  // Returns the elements. REQUIRES: T is the C++ type of `type` (float for kFloat, uint16_t for
  // kFloat16, ...), or `type` is not set yet.
  template <typename T>
  std::span<const T> values() const {
    BITPRESS_DCHECK(IsOfSize(type, sizeof(T)));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> values() {
    BITPRESS_DCHECK(IsOfSize(type, sizeof(T)));
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

}  // namespace bitpress
