// Sums of floats that do not depend on the order of the terms, in 12 bytes each, for matrices whose
// exact sums (exact_sum.h) would be too large. Neighbouring sums form a group, whose largest term
// says which digits are kept.
//
// A term x is cut into balanced digits at fixed places: x = sum over p of digit(x, p) * 2^(12 p),
// with x' = x - sum of the digits above p, digit(x, p) = x' / 2^(12 p) rounded to nearest, ties to
// even. A group has a place P, the least (from kLeastPlace on) with |x| < 2^(12 P + 11) for all its
// terms x. Of each sum it keeps the sums of the digits at P, P - 1 and P - 2, as integers.
//
// Why the order does not matter:
// 1. digit(x, p) depends on x and p alone. The digits may be computed from any place Q on
//    whose 2^(12 Q + 11) is above |x|, because all digits above Q are 0: there |x'| / 2^(12 p) <
//    1/2.
// 2. P follows from the largest of all terms, whatever came first.
// 3. When a larger term raises P to P + n, digits at P + n - 2 and above stay and others are
//    dropped. Earlier terms have no digits above P (1), and the dropped ones are not kept at
//    P + n for any term. So at each time the state is the sums of digit(x, p) over all terms x, for
//    the three places p of the present P: a function of the set of terms.
// 4. Sums of integers are exact in any order, and groups are added up in the same way.
//
// What is dropped of a term is at most 2^(12 P - 25), half of the last digit. The largest term is
// 2^(12 P - 1) or more (or P is kLeastPlace), so that this is at most 2^-24 of it: as much as its
// own rounding to float.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_stream.h"

namespace bitpress {

inline constexpr int kDigitBits = 12;
inline constexpr size_t kNumDigits = 3;
// The number of sums of a group. The last group of a row may have fewer.
inline constexpr size_t kDigitGroup = 64;
// Digits below 2^-120 are 0. The scales of all places are normal floats, and so are scaled terms
// with digits: results are the same if a processor takes subnormal floats for 0.
inline constexpr int kLeastPlace = -8;
inline constexpr int kMostPlace = 10;  // every finite float is below its limit
// Sums of so many digits fit an int32, because a digit is at most 2^11.
inline constexpr uint64_t kMostNarrowTerms = (uint64_t{1} << 20) - 1;
// Sums of so many digits fit an int64, and so do two of them.
inline constexpr uint64_t kMostWideTerms = (uint64_t{1} << 51) - 1;

// Returns the least place of a group whose largest term is this. REQUIRES: it is finite.
int PlaceOf(float magnitude);
// Returns 2^(-12 place), and 2^(12 place + 11), which may be infinite.
float DigitScale(int place);
float DigitLimit(int place);

// Returns the digits of a term at `place` and the two below. It is the specification of
// kernels/digit_sums.h. REQUIRES: |x| < DigitLimit(place).
std::array<int32_t, kNumDigits> DigitsOf(float x, int place);

// A group of sums, in integers for any number of terms.
struct DigitSums {
  int place = kLeastPlace;
  size_t size = 0;  // sums
  std::array<std::array<int64_t, kDigitGroup>, kNumDigits> digits = {};

  // Raises the place to `to`, if it is lower.
  void Raise(int to);
  // Adds the terms of the other. REQUIRES: the sizes are equal.
  void Add(const DigitSums& other);
  // Returns a sum, rounded to double.
  double Value(size_t i) const;

  // The same sums have the same bytes. Read throws Error(kInvalidArgument) if they are no sums of
  // `num_terms` terms.
  void Write(ByteWriter& out) const;
  static DigitSums Read(ByteReader& in, size_t size, uint64_t num_terms);
  bool operator==(const DigitSums&) const = default;
};

// A group of sums as it lies in a file: what DigitSums::Write wrote. Use it to add many files up
// without a copy of each group. The bytes must outlive it.
class StoredDigits {
 public:
  // Takes the bytes of a group of `size` sums, and does not look at the digits. Throws
  // Error(kInvalidArgument) if they end too early, or have no place or width.
  StoredDigits(ByteReader& in, size_t size);

  int place() const { return place_; }
  // Checks that they are sums of `num_terms` terms, and as short as they can be. Throws
  // Error(kInvalidArgument).
  void Check(uint64_t num_terms) const;
  // Add digit d of each sum, counted from the place, to `sums`. REQUIRES: Check passed, d <
  // kNumDigits, and no sum overflows (kMostNarrowTerms, kMostWideTerms).
  void AddTo(size_t d, int32_t* sums) const;
  void AddTo(size_t d, int64_t* sums) const;

 private:
  // One digit of all sums: its bytes, and the index of its width.
  struct Digits {
    const char* bytes = nullptr;
    size_t width = 0;
  };

  ByteReader in_;  // for messages
  size_t size_;
  int place_;
  std::array<Digits, kNumDigits> digits_;
};

}  // namespace bitpress
