// The host hands this to the kernels: plain data, the same for the compiler of the host and that of
// the device. Each kernel takes one such struct.
#pragma once

#include <stdint.h>

namespace bitpress::cuda {

// How the values of a block are rounded. Each way is compiled for itself; kOther asks for the rest.
enum Way {
  kQuickIntegers = 0,   // two's complement, ties to even, zeros become +0
  kFloats = 1,          // float elements, zeros keep their sign
  kFloatsPositive = 2,  // float elements, zeros become +0
  kMagnitudes = 3,      // sign and magnitude, ties to even, zeros keep their sign
  kOther = 4,
  kFloatScale = 5,  // float elements whose scale is an E4M3 number instead of an exponent
};
enum Element { kFloatElement = 0, kTwosComplement = 1, kSignMagnitude = 2 };
enum Rounding { kHalfToEven = 0, kHalfAwayFromZero = 1, kHalfUp = 2 };
enum Choice { kFloor = 0, kCeil = 1, kEven = 2, kMse = 3 };
enum Zero { kKeepSign = 0, kPositive = 1, kQuarkNearest = 2 };

// A block format. Exponents called fields lie in bits 23 to 30, as in float32.
struct BlockFormat {
  int32_t way, element, rounding, choice, zero;
  int32_t block_size, sub_block_size;  // sub_block_size 0: none
  int32_t nan_block, flush_subnormals;
  // Blocks whose largest magnitude is zero or lies in the middle of float32's range, which nearly
  // all are (kernels/rounding-inl.h): from least_amax on, less than amax_range above it.
  uint32_t least_amax, amax_range;
  uint32_t exponent_threshold, least_exponent, largest_exponent, emax_offset;  // fields
  uint32_t subnormal_offset, magic_offset, limit_mantissa, max_shift_field;
  // All blocks.
  int32_t max_exponent, min_exponent, fraction_bits;
  int32_t least_shared, most_shared, limits_shared, reads_exponent_field, max_shift;
  float max_value;
};

// Tensors [outer, length, inner] with blocks along the middle dimension.
struct BlockArgs {
  const void* x;
  void* y;  // may be x
  int64_t outer, length, inner;
  int64_t blocks;       // along the axis
  int32_t group_lanes;  // lanes that share a block, a power of two
  int32_t is_half;      // values are float16
  int32_t is_kept;      // blocks wait in shared memory for their scale
  int32_t is_aligned;   // four values may be loaded at once
  int32_t has_short_blocks;
  int32_t unused;
  BlockFormat format;
};

// Formats without blocks.
struct ElementArgs {
  const void* x;
  void* y;  // may be x
  int64_t count;
  int32_t is_bfloat16, passes_infinity;
  uint32_t limit, least_exponent, magic_offset;
  int32_t unused;
};

enum Code {
  kUInt8 = 0,
  kInt8 = 1,
  kUInt16 = 2,
  kInt16 = 3,
  kUInt32 = 4,
  kInt32 = 5,
  kHalf = 6,
  kBFloat16 = 7
};

// QuantizeLinear and DequantizeLinear: element i has the parameters i / inner % num_scales.
struct LinearArgs {
  const void* x;
  void* y;
  const float* scales;
  const void* zero_points;
  int64_t count, inner, num_scales;
  int32_t code;
  int32_t unused;
};

}  // namespace bitpress::cuda
