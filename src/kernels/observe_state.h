// The tables that the observing kernels count into. Internal; see observe.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/observe.h"

namespace bitpress::kernels {

inline constexpr int kObserveShift = 23 - kObservedBits;  // shift from a float's bits to its bin
inline constexpr size_t kNumSignedExponents = 512;
inline constexpr size_t kNumObservedBins = kNumSignedExponents << kObservedBits;

// The number of sums of one exponent. Neighbouring elements are often equal, or at least of one
// exponent. Each goes to the next of several sums, because adding to a sum again waits until the
// first addition has left the processor's store buffer. (For counts this costs more cache than it
// gains.)
inline constexpr size_t kNumSumTables = 4;
// The most squares, each below 2^48, whose sum fits 64 bits.
inline constexpr size_t kMostBetweenFolds = size_t{1} << 16;

struct alignas(16) ObservedSums {
  uint64_t sum;
  uint64_t sum_of_squares;
};

struct ObserveTables {
  uint32_t* counts;  // kNumObservedBins, without zeros
  // They are counted on request only. The sums of one exponent lie side by side, because processors
  // take addresses at a distance of 4 KiB for the same.
  alignas(64) ObservedSums sums[kNumSignedExponents][kNumSumTables];
  uint64_t num_zeros;  // of either sign
  // The bits of the smallest and of the largest magnitude but for zeros, NaN and infinities
  // included.
  int32_t least_magnitude;
  int32_t greatest_magnitude;
  uint64_t num_positive_infinity;
  uint64_t num_negative_infinity;
  // The extremes of the finite elements as OrderedBits.
  int32_t min_key;
  int32_t max_key;
};

// Returns a float's bits as an integer of the same order, -0 below +0. The function is its own
// inverse.
constexpr int32_t OrderedBits(int32_t bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }

// Adds one element that is not zero to the tables, to their sums if `kSums`.
template <bool kSums>
void ObserveNonZero(uint32_t bits, size_t position, ObserveTables& tables) {
  const uint32_t exponent = bits >> 23 & 0xFFu;
  const uint64_t significand = (bits & 0x007FFFFFu) | (exponent == 0 ? 0u : 1u << 23);
  ++tables.counts[bits >> kObserveShift];
  if constexpr (!kSums) return;
  ObservedSums& sums = tables.sums[bits >> 23][position % kNumSumTables];
  sums.sum += significand;
  sums.sum_of_squares += significand * significand;
}

// Counts one element. The portable version calls it for all elements, the others for their ends.
template <bool kSums>
void ObserveOne(uint32_t bits, size_t position, ObserveTables& tables) {
  const bool is_zero = (bits << 1) == 0;
  if (!is_zero) {
    ObserveNonZero<kSums>(bits, position, tables);
    const auto magnitude = static_cast<int32_t>(bits & 0x7FFFFFFFu);
    tables.least_magnitude = std::min(tables.least_magnitude, magnitude);
    tables.greatest_magnitude = std::max(tables.greatest_magnitude, magnitude);
  }
  tables.num_zeros += is_zero ? 1U : 0U;
  tables.num_positive_infinity += bits == 0x7F800000u ? 1U : 0U;
  tables.num_negative_infinity += bits == 0xFF800000u ? 1U : 0U;
  if ((bits >> 23 & 0xFFu) == 255) return;
  const int32_t key = OrderedBits(static_cast<int32_t>(bits));
  tables.min_key = std::min(tables.min_key, key);
  tables.max_key = std::max(tables.max_key, key);
}

// A kernel that counts elements. REQUIRES: with them, the sums of squares hold no more than
// kMostBetweenFolds elements.
using ObserveKernel = void (*)(const float* x, size_t length, ObserveTables& tables);
using ObserveTable = std::array<ObserveKernel, kTargetNames.size()>;
extern const ObserveTable kObserveTable;        // with sums
extern const ObserveTable kObserveCountsTable;  // without

}  // namespace bitpress::kernels
