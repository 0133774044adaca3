// TEST ONLY. Formats with every option, shapes and values for the comparison of kernels with the
// scalar reference, on the processor and on a device.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "formats/quark.h"
#include "formats/reference.h"
#include "kernels/half.h"

namespace bitpress::cuda::cases {

using formats::FormatSpec;

inline std::string Describe(const FormatSpec& spec) {
  return fmt::format("{} block {} sub {} {} {} zero {} {}", spec.name, spec.block_size,
                     spec.sub_block_size, ScaleChoiceName(spec.scale_choice),
                     RoundingModeName(spec.rounding), static_cast<int>(spec.zero_rule),
                     spec.limit_shared_exponent ? "limited" : "unlimited");
}

// Appends a format with every scale choice and rounding that it may have.
inline void AddChoices(const FormatSpec& base, std::vector<FormatSpec>& specs) {
  using formats::RoundingMode;
  using formats::ScaleChoice;
  for (const ScaleChoice choice :
       {ScaleChoice::kFloor, ScaleChoice::kCeil, ScaleChoice::kEven, ScaleChoice::kMse}) {
    for (const RoundingMode rounding :
         {RoundingMode::kHalfToEven, RoundingMode::kHalfAwayFromZero, RoundingMode::kHalfUp}) {
      if (base.has_float_elements() && rounding != RoundingMode::kHalfToEven) continue;
      specs.push_back(base);
      specs.back().scale_choice = choice;
      specs.back().rounding = rounding;
    }
  }
}

// Returns the formats of Quark's operators.
inline std::vector<FormatSpec> QuarkSpecs() {
  std::vector<FormatSpec> specs;
  const auto add = [&](FormatSpec spec) {
    for (const auto choice : {formats::ScaleChoice::kFloor, formats::ScaleChoice::kMse}) {
      spec.scale_choice = choice;
      specs.push_back(spec);
    }
  };
  for (const int64_t mode : {0, 1, 2}) {
    for (const char* type : {"fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"}) {
      add(QuarkSpec(formats::QuarkMxAttributes{type, 32, mode}));
    }
    add(QuarkSpec(formats::QuarkMxAttributes{"int8", 16, mode}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp", 16, 8, mode}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp", 32, 16, mode}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 13, 16, mode, 2, 1}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 16, 16, mode, 4, 2}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 11, 12, mode, 3, 2}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 32, 32, mode, 1, 4}));
    add(QuarkSpec(formats::QuarkBfpAttributes{"to_bfp_prime", 16, 32, mode, 8, 3}));
  }
  return specs;
}

// Returns every format with every option that changes its arithmetic.
inline std::vector<FormatSpec> AllSpecs() {
  std::vector<FormatSpec> specs;
  for (const FormatSpec& row : formats::AllFormats()) {
    if (row.has_exponent_scales()) AddChoices(row, specs);
    if (row.is_blocked() && row.has_exponent_scales()) {
      AddChoices(row, specs);
    } else if (!row.is_integer()) {
      specs.push_back(row);
    }
  }
  for (const char* name :
       {"bfp(bits=12, block=32)", "bfp(bits=31, block=16)", "bfp(bits=10, block=4)",
        "bfp(bits=13, block=20)", "bfp(bits=9, block=8, exponent_bits=5)", "bfp(bits=13, block=64)",
        "bfp(bits=16, block=1)", "bfp(bits=14, block=16, exponent_bits=2)",
        "bfp(bits=15, block=300)", "mx(bits=12, block=32, sub_block=4, shift_bits=2)",
        "mxfp8_e4m3(block=16)", "mxint8(block=128)", "mxfp4_e2m1(block=6)"}) {
    AddChoices(formats::FindFormat(name), specs);
  }
  for (FormatSpec& spec : QuarkSpecs()) specs.push_back(std::move(spec));
  return specs;
}

inline float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// Returns values of all kinds: ties, edges of exponents, saturation, zeros of both signs, and with
// `special` NaN with payloads, infinities, subnormals and magnitudes at both ends of float32.
inline std::vector<float> Values(size_t count, bool special, std::mt19937& random) {
  std::vector<float> values(count);
  int base = 0, spread = 8, kind = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % 37 == 0) {
      base = static_cast<int>(random() % 40) - 20;
      kind = static_cast<int>(random() % 16);
      spread = kind == 0 ? 40 : 8;
      if (special && kind == 1) base = -130 - static_cast<int>(random() % 20);
      if (special && kind == 2) base = 120 + static_cast<int>(random() % 8);
      if (special && kind == 3) base = -60 - static_cast<int>(random() % 8);
    }
    const auto draw = static_cast<uint32_t>(random());
    const double sign = draw & 1 ? -1.0 : 1.0;
    const int small = static_cast<int>(draw >> 8) % spread;
    switch (kind == 4 ? 0 : draw >> 1 & 7) {
      case 0:
        values[i] = FromBits(draw << 31);  // a zero
        break;
      case 1:  // a power of two
        values[i] = static_cast<float>(std::ldexp(sign, base - small));
        break;
      case 2:  // few mantissa bits: ties of every format
        values[i] = static_cast<float>(
            std::ldexp(sign * static_cast<double>(draw >> 12 & 511), base - small - 8));
        break;
      case 3:  // beside a power of two
        values[i] = FromBits(std::bit_cast<uint32_t>(static_cast<float>(std::ldexp(sign, base))) +
                             (draw >> 4 & 3) - 2);
        break;
      default:
        values[i] = static_cast<float>(sign * std::ldexp(static_cast<double>(random()), base - 32));
    }
    if (special && draw >> 24 < 12 && random() % 4 == 0) {
      constexpr uint32_t kSpecials[] = {0x7F800000u, 0xFF800000u, 0x7FC00001u, 0x7F7FFFFFu,
                                        0x00000001u, 0x807FFFFFu, 0x00800000u, 0xFF000000u,
                                        0x7F800001u, 0xFFFFFFFFu, 0x80000001u, 0x7FBFE000u};
      values[i] = FromBits(kSpecials[draw >> 24]);
    }
  }
  return values;
}

// Returns what the specification gives for a tensor of float32 (its bits) or float16.
inline std::vector<uint32_t> Expected(const FormatSpec& spec, const Shape& shape,
                                      const std::vector<float>& x) {
  std::vector<float> y(x.size());
  formats::ref::FakeQuantize(spec, x, y, shape.outer, shape.length, shape.inner);
  std::vector<uint32_t> bits(x.size());
  for (size_t i = 0; i < x.size(); ++i) bits[i] = std::bit_cast<uint32_t>(y[i]);
  return bits;
}

// Returns the float16 nearest to the values, and NaN with its payload.
inline std::vector<uint16_t> Halves(const std::vector<float>& x) {
  std::vector<uint16_t> y(x.size());
  kernels::FloatToHalf(x, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    // Half floats have subnormals of their own.
    if (i % 29 == 3) y[i] = static_cast<uint16_t>((y[i] & 0x8000u) | (i & 0x3FFu));
  }
  return y;
}

// Shapes that take every way through the kernels.
inline std::vector<Shape> SomeShapes() {
  return {{1, 1, 1},    {3, 5, 1}, {7, 33, 1},  {2, 128, 1},
          {1, 1200, 1}, {2, 3, 7}, {1, 40, 85}, {3, 64, 3}};
}
inline std::vector<Shape> ManyShapes() {
  return {{1, 32, 1},  {5, 64, 1},   {2, 200, 1}, {5, 100, 1}, {1, 32, 2},  {1, 31, 15},
          {1, 33, 16}, {2, 40, 17},  {1, 64, 49}, {1, 16, 63}, {1, 70, 64}, {1, 32, 65},
          {1, 8, 196}, {1, 33, 130}, {9, 8, 1},   {300, 4, 1}, {17, 1, 1},  {1, 1, 200},
          {40, 2, 3},  {1, 301, 2},  {4, 512, 1}, {1, 600, 1}, {33, 48, 1}, {2, 1024, 3},
          {3, 96, 40}, {130, 16, 1}, {2, 12, 11}};
}

}  // namespace bitpress::cuda::cases
