// The tables that the observing kernels count into. Internal; see observe.h.
#pragma once

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
  uint32_t* counts;  // kNumObservedBins
  // The sums of one exponent lie side by side, because processors take addresses at a distance of
  // 4 KiB for the same.
  alignas(64) ObservedSums sums[kNumSignedExponents][kNumSumTables];
  uint64_t num_zeros;  // of either sign
  uint64_t num_negative_zeros;
  uint64_t num_positive_infinity;
  uint64_t num_negative_infinity;
  // The extremes of the finite elements as OrderedBits.
  int32_t min_key;
  int32_t max_key;
};

// Returns a float's bits as an integer of the same order, -0 below +0. The function is its own
// inverse.
constexpr int32_t OrderedBits(int32_t bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }

// Counts one element. The portable version calls it for all elements, the others for their ends.
inline void ObserveOne(uint32_t bits, size_t position, ObserveTables& tables) {
  const uint32_t exponent = bits >> 23 & 0xFFu;
  const uint64_t significand = (bits & 0x007FFFFFu) | (exponent == 0 ? 0u : 1u << 23);
  ++tables.counts[bits >> kObserveShift];
  ObservedSums& sums = tables.sums[bits >> 23][position % kNumSumTables];
  sums.sum += significand;
  sums.sum_of_squares += significand * significand;
  tables.num_zeros += (bits << 1) == 0 ? 1U : 0U;
  tables.num_negative_zeros += bits == 0x80000000u ? 1U : 0U;
  tables.num_positive_infinity += bits == 0x7F800000u ? 1U : 0U;
  tables.num_negative_infinity += bits == 0xFF800000u ? 1U : 0U;
  if (exponent == 255) return;
  const int32_t key = OrderedBits(static_cast<int32_t>(bits));
  tables.min_key = key < tables.min_key ? key : tables.min_key;
  tables.max_key = key > tables.max_key ? key : tables.max_key;
}

// A kernel that counts elements. REQUIRES: with them, the sums of squares hold no more than
// kMostBetweenFolds elements.
using ObserveKernel = void (*)(const float* x, size_t length, ObserveTables& tables);
using ObserveTable = std::array<ObserveKernel, kTargetNames.size()>;
extern const ObserveTable kObserveTable;

}  // namespace bitpress::kernels
