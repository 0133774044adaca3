// Sums of 8-bit products on x86 processors without VNNI, and codes of weights with which these sums
// are right there too. For integer models that must give the same results on every processor.
//
// The instruction vpmaddubsw multiplies uint8 activations with int8 weights, adds the products of
// two neighbours along the sum, and saturates this pair sum at 16 bits: 255 * (127 + 127) does not
// fit. VNNI and the u8 x u8 and s8 x s8 kernels of ONNX Runtime add in 32 bits. The operator says
// which elements are neighbours (ops/integer_kernels.h). Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace bitpress::formats {

inline constexpr int32_t kLeastPairSum = -32768;
inline constexpr int32_t kLargestPairSum = 32767;

// Returns the dot product as those processors compute it: elements 2i and 2i + 1 are a pair, and
// the last one of an odd number of elements is a pair with zero. kernels/pair_saturation.h equals
// it. REQUIRES: there are as many activations as weights.
int32_t SaturatingDot(std::span<const uint8_t> activations, std::span<const int8_t> weights);

// The largest activation codes that the two elements of a pair meet, each 0 to 255.
struct PairBounds {
  int32_t first = 255;
  int32_t second = 255;
};

struct PairCodes {
  int32_t first = 0;
  int32_t second = 0;
  bool operator==(const PairCodes&) const = default;
};

// Returns whether no activations within the bounds make the pair sum saturate.
constexpr bool FitsPairSum(PairCodes weights, PairBounds largest) {
  const int32_t first = weights.first * largest.first;
  const int32_t second = weights.second * largest.second;
  // Activations are not negative, so the extremes leave out the product of the other sign.
  const int32_t positive = (first > 0 ? first : 0) + (second > 0 ? second : 0);
  const int32_t negative = (first < 0 ? first : 0) + (second < 0 ? second : 0);
  return positive <= kLargestPairSum && negative >= kLeastPairSum;
}

// The weights of a pair before they are rounded, in units of their scale, and the cost of a squared
// error of each (> 0).
struct PairTarget {
  double first = 0;
  double second = 0;
  double first_cost = 1;
  double second_cost = 1;
};

// Returns the codes with the least cost among those that fit and lie between zero and `rounded`,
// the codes of the target rounded to nearest. Equal costs go to the smaller first magnitude. Codes
// that fit are returned as they are. No magnitude grows. So a pair that fits other bounds, or
// another pair that one of the two belongs to, still fits afterwards. REQUIRES: `rounded` are codes
// of int8.
PairCodes FitPair(PairCodes rounded, const PairTarget& target, PairBounds largest);

}  // namespace bitpress::formats
