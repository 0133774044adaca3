// TEST ONLY. Formats of every kind, and values that a format represents exactly, for the tests of
// packing in this room and in kernels/.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/quark.h"
#include "formats/reference.h"

namespace bitpress::formats::packing_cases {

// Returns every format that has a packed form, block floating point of every width, and formats
// that Quark's operators can ask for beyond the table.
inline std::vector<FormatSpec> Specs() {
  std::vector<FormatSpec> specs;
  for (const FormatSpec& row : AllFormats()) {
    if (!row.is_integer()) specs.push_back(row);
  }
  for (int element_bits = 2; element_bits <= 16; ++element_bits) {
    specs.push_back(FindFormat(fmt::format("bfp(bits={}, block=32)", element_bits + 8)));
  }
  for (const char* name : {"bfp(bits=14, block=20)", "bfp(bits=13, block=1)",
                           "bfp(bits=12, block=7)", "bfp(bits=9, block=8, exponent_bits=5)",
                           "bfp(bits=14, block=16, exponent_bits=2)", "bfp(bits=15, block=300)"}) {
    specs.push_back(FindFormat(name));
  }
  const auto add_prime = [&](int64_t bit_width, int64_t block, int64_t sub, int64_t shift_bits) {
    specs.push_back(
        QuarkSpec(QuarkBfpAttributes{"to_bfp_prime", bit_width, block, 2, sub, shift_bits}));
  };
  add_prime(13, 16, 4, 2);
  add_prime(11, 12, 3, 3);
  add_prime(16, 32, 1, 4);
  add_prime(24, 16, 2, 4);  // two planes of codes and the smallest scales there are
  add_prime(12, 16, 8, 0);  // sub-blocks without bits to shift them
  FormatSpec narrow = specs.back();
  narrow.name = "bfp_prime with 3 exponent bits";
  narrow.scale_bits = 3;
  narrow.sub_block_size = 2;
  narrow.sub_block_shift_bits = 2;
  specs.push_back(narrow);
  for (FormatSpec spec : {FindFormat("mxint8"), FindFormat("mxfp4_e2m1")}) {
    spec.block_size = 6;
    specs.push_back(spec);
  }
  return specs;
}

// Returns whether no code is worth y. FakeQuantize may give such values, and PackTensor refuses
// them.
inline bool HasNoCode(const FormatSpec& spec, float y) {
  const uint32_t bits = FloatBits(y);
  const bool is_saturated = (bits & ~kFloatSignBit) == kFloatExponentMask - 1;
  const bool lacks_negative_zero = spec.element_type == ElementType::kInt8;
  return !IsFinite(y) || is_saturated || (lacks_negative_zero && bits == kFloatSignBit);
}

// Returns values of a few neighbouring exponents, which change every 37 elements and cover the
// whole range of float32 if `all_exponents`. Zeros of both signs and powers of two are among them.
inline std::vector<float> Values(size_t count, bool all_exponents, std::mt19937& random) {
  std::vector<float> values(count);
  int base = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % 37 == 0) {
      base = all_exponents ? static_cast<int>(random() % 277) - 149
                           : static_cast<int>(random() % 40) - 20;
    }
    const uint32_t draw = static_cast<uint32_t>(random());
    const double sign = draw & 1 ? -1.0 : 1.0;
    const int small = static_cast<int>(draw >> 8 & 7);
    double magnitude = std::ldexp(static_cast<double>(random()), base - 32);
    if ((draw >> 1 & 7) == 0) magnitude = 0;
    if ((draw >> 1 & 7) == 1) magnitude = std::ldexp(1.0, base - small);
    values[i] = RoundToFloat(sign * std::min(magnitude, 0x1.fffffep127));
  }
  return values;
}

// Returns such values after FakeQuantize, with zeros for those that have no code.
inline std::vector<float> Quantized(const FormatSpec& spec, int64_t outer, int64_t axis,
                                    int64_t inner, bool all_exponents, std::mt19937& random) {
  std::vector<float> y = Values(static_cast<size_t>(outer * axis * inner), all_exponents, random);
  ref::FakeQuantize(spec, y, y, outer, axis, inner);
  for (float& value : y) {
    if (HasNoCode(spec, value)) value = 0.0f;
  }
  return y;
}

inline std::string Describe(const FormatSpec& spec) {
  return fmt::format("{} element_bits={} block={} sub={} shift={} scale={} rounding={}", spec.name,
                     spec.element_bits, spec.block_size, spec.sub_block_size,
                     spec.sub_block_shift_bits, ScaleChoiceName(spec.scale_choice),
                     RoundingModeName(spec.rounding));
}

}  // namespace bitpress::formats::packing_cases
