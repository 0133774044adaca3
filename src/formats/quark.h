// The block formats as AMD Quark 0.13's operators define them, for models that hold these
// operators. They differ from our rows in the sign of zeros, in the shared exponent, which Quark's
// MX operator does not limit to E8M0, and in the default rounding.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/format_spec.h"

namespace bitpress::formats {

// The attributes of com.amd.quark::MXQuantizeDequantize, with the operator's own defaults.
struct QuarkMxAttributes {
  std::string_view element_dtype = "int8";  // fp8_e5m2 fp8_e4m3 fp6_e3m2 fp6_e2m3 fp4_e2m1 int8
  int64_t block_size = 32;
  int64_t rounding_mode = 0;  // 0 half away from zero, 1 half up, 2 half to even; int8 only
};

// The attributes of com.amd.quark::BFPQuantizeDequantize, with the operator's own defaults.
struct QuarkBfpAttributes {
  std::string_view bfp_method = "to_bfp";  // to_bfp, to_bfp_prime, or its alias to_bfp_prime_shared
  int64_t bit_width = 16;                  // bits of exponent (8), sign and magnitude
  int64_t block_size = 8;
  int64_t rounding_mode = 0;
  int64_t sub_block_size = 2;  // for to_bfp_prime only, like the next one
  int64_t sub_block_shift_bits = 1;
};

// Return the format that the attributes mean. Throw Error(kInvalidArgument) naming the attribute,
// its value and the allowed values.
FormatSpec QuarkSpec(const QuarkMxAttributes& attributes);
FormatSpec QuarkSpec(const QuarkBfpAttributes& attributes);

}  // namespace bitpress::formats
