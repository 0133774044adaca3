// TEST ONLY. Structured blocks for tests of the block formats. Their largest magnitudes have every
// exponent and lie at the edges where scale choices change. Their elements lie where rounding does.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/test_oracle.h"

namespace bitpress::formats::testing_cases {

inline constexpr float kLargestFloat = std::numeric_limits<float>::max();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline float Above(float x) { return std::nextafter(x, kLargestFloat); }
inline float Below(float x) { return std::nextafter(x, -kLargestFloat); }

// NaN is NaN, whatever its sign and payload.
inline bool SameBits(float a, float b) {
  return FloatBits(a) == FloatBits(b) || (IsNan(a) && IsNan(b));
}

class BlockCases {
 public:
  BlockCases(const FormatSpec& spec, uint32_t seed) : spec_(spec), generator_(seed) {
    const long double top = oracle::TableOf(spec).largest();
    const int emax = oracle::ExponentOf(top);
    top_ = top / oracle::PowerOfTwo(emax);
    const auto& table = oracle::TableOf(spec);
    step_ = (top - table.value(table.count() - 2)) / oracle::PowerOfTwo(emax);
  }

  // Returns largest magnitudes with that exponent: powers of two, the largest element, the point
  // from which EVEN goes up, each with its neighbours, and the end of the binade.
  std::vector<float> Edges(int exponent) const {
    std::vector<float> edges;
    for (const long double f : {1.0L, 1.5L, top_, 2 - step_ / 2, 2 - step_, 2.0L}) {
      const float x = oracle::NearestFloat(f * oracle::PowerOfTwo(exponent));
      for (const float edge : {Below(x), x, Above(x)}) {
        if (IsFinite(edge) && edge > 0) edges.push_back(edge);
      }
    }
    return edges;
  }

  // Returns a block of that length whose largest magnitude is amax, in a random place.
  std::vector<float> Fill(float amax, size_t length) {
    std::vector<float> block;
    const bool is_outlier = Random(4) == 0;
    const int exponent = oracle::ExponentOf(static_cast<long double>(amax));
    for (size_t i = 0; i < length; ++i) {
      float x = is_outlier ? amax * std::ldexp(1.0f, -static_cast<int>(8 + Random(40)))
                           : Element(amax, exponent, Random(7));
      if (!(std::fabs(x) <= amax)) x = amax;
      block.push_back(Random(2) == 0 ? x : -x);
    }
    block[Random(static_cast<uint32_t>(length))] = Random(2) == 0 ? amax : -amax;
    return block;
  }

  uint32_t Random(uint32_t bound) { return static_cast<uint32_t>(generator_()) % bound; }

 private:
  float Element(float amax, int k, uint32_t kind) {
    // Most elements are ties: halfway between two neighbours, in the binade of amax or below.
    const int down = static_cast<int>(Random(5));
    const long double steps = std::floor(2 / step_);
    const uint32_t count = static_cast<uint32_t>(std::min(steps, 65536.0L));
    const long double tie = (static_cast<long double>(Random(count)) + 0.5L) * step_;
    const float at_tie = oracle::NearestFloat(tie * oracle::PowerOfTwo(k - down));
    switch (kind) {
      case 0:
        return Above(at_tie);
      case 1:
        return Below(at_tie);
      case 2:
        return oracle::NearestFloat(oracle::PowerOfTwo(k - static_cast<int>(Random(12))));
      case 3:
        return amax * (static_cast<float>(Random(1 << 20)) * 0x1p-20f);
      case 4:
        return 0.0f;
      default:
        return at_tie;
    }
  }

  FormatSpec spec_;
  std::mt19937 generator_;
  long double top_ = 0;   // largest element divided by its power of two: 1 to 2
  long double step_ = 0;  // distance between the two largest elements, in the same unit
};

// Returns the rows of the table whose scales are powers of two. Other scales have tests of their
// own (block_scale_test.cc).
inline std::vector<FormatSpec> BlockedFormats() {
  std::vector<FormatSpec> formats;
  for (const FormatSpec& spec : AllFormats()) {
    if (spec.has_exponent_scales()) formats.push_back(spec);
  }
  return formats;
}

// Returns the rows of the table, and block floating point of other widths, blocks and exponents.
inline std::vector<FormatSpec> TestedFormats() {
  std::vector<FormatSpec> formats = BlockedFormats();
  for (const char* name :
       {"bfp(bits=13, block=32)", "bfp(bits=10, block=7)", "bfp(bits=12, block=64)",
        "bfp(bits=20, block=1)", "bfp(bits=32, block=7)", "bfp(bits=13, block=7, exponent_bits=5)",
        "bfp(bits=29, block=16, exponent_bits=5)", "bfp(bits=8, block=4, exponent_bits=2)"}) {
    formats.push_back(FindFormat(name));
  }
  // This format has one more bit of micro-exponent and larger sub-blocks than MX4/6/9.
  FormatSpec deep = FindFormat("mx6");
  deep.name = "mx6 with sub-blocks of 4 and 2 bits";
  deep.sub_block_size = 4;
  deep.sub_block_shift_bits = 2;
  formats.push_back(deep);
  return formats;
}

// Returns exponents of largest magnitudes: those at both ends of float32, where subnormal numbers,
// limits of scales and saturation are, and in between every step-th.
inline std::vector<int> Exponents(int step) {
  std::vector<int> exponents;
  for (int exponent = -149; exponent <= 127; ++exponent) {
    if (exponent < -117 || exponent > 117 || exponent % step == 0) exponents.push_back(exponent);
  }
  return exponents;
}

inline std::vector<ScaleChoice> ScaleChoices() {
  return {ScaleChoice::kFloor, ScaleChoice::kCeil, ScaleChoice::kEven, ScaleChoice::kMse};
}

}  // namespace bitpress::formats::testing_cases
