// Counters for the elements of tensors: extremes, special values, sums and a histogram over the
// bits of each float (sign, exponent, top mantissa bits). Calibration uses them. Everything is an
// integer, so that the order of elements and any partition of them do not matter. Every instruction
// set counts the same, as the scalar TensorStatistics::Add of calibration specifies. The counters
// work on bits alone, so that the processor's denormals-are-zero mode changes nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>

namespace bitpress::kernels {

inline constexpr int kObservedBits = 8;  // mantissa bits that tell bins of one exponent apart
inline constexpr size_t kObservedBinsPerExponent = size_t{1} << kObservedBits;

// The range of finite elements. A zero counts as +0. Nothing was found if min > max.
struct ObservedRange {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
};

// The counts of all elements.
struct ObservedTotals {
  uint64_t num_finite = 0;
  uint64_t num_zeros = 0;
  uint64_t num_nan = 0;
  uint64_t num_positive_infinity = 0;
  uint64_t num_negative_infinity = 0;
  ObservedRange range;
};

// The non-zero finite elements of one sign and exponent field (0..254). m is an element's
// significand, an integer below 2^24.
struct ObservedExponent {
  bool is_negative = false;
  int exponent_field = 0;
  // The counts of elements by m's 8 bits below the leading one.
  std::array<uint64_t, kObservedBinsPerExponent> counts = {};
  uint64_t sum = 0;                             // sum of m
  std::array<uint64_t, 2> sum_of_squares = {};  // sum of m * m: low word, high word
};

// A counter, for one thread at a time. It takes half a MiB of address space. Only the pages that
// the values need become memory.
class ObserveCounter {
 public:
  // The most elements that may be counted between two calls of Drain.
  static constexpr uint64_t kMostElements = uint64_t{1} << 31;

  // Sums cost half of the time. Without them ObservedExponent has sums of 0.
  explicit ObserveCounter(bool has_sums = true);
  ~ObserveCounter();
  ObserveCounter(ObserveCounter&&) noexcept;
  ObserveCounter& operator=(ObserveCounter&&) noexcept;

  // Counts the values and returns their range. REQUIRES: with them, no more than kMostElements were
  // counted since Drain.
  ObservedRange Count(std::span<const float> values);
  // Counts half floats, as the floats they are.
  ObservedRange CountHalves(std::span<const uint16_t> values);

  bool has_sums() const;

  // Returns the totals, calls `take` for each exponent that has elements, in no particular order,
  // and starts anew.
  ObservedTotals Drain(const std::function<void(const ObservedExponent&)>& take);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress::kernels
