// Counting of tensors for calibration: extremes, special values, sums and a histogram over the bits
// of each float (sign, exponent, top mantissa bits). Everything is an integer, so that the order of
// elements and any partition of them do not matter. The specification is
// calibrate::TensorStatistics::Add; every instruction set counts the same. Works on bits alone: the
// processor's denormals-are-zero mode changes nothing.
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

// Finite elements only; a zero counts as +0. Nothing was found if min > max.
struct ObservedRange {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
};

struct ObservedTotals {
  uint64_t num_finite = 0;
  uint64_t num_zeros = 0;
  uint64_t num_nan = 0;
  uint64_t num_positive_infinity = 0;
  uint64_t num_negative_infinity = 0;
  ObservedRange range;
};

// The non-zero finite elements of one sign and exponent field (0..254). With m the significand, an
// integer below 2^24: counts by its 8 bits below the leading one, sum of m, sum of m * m.
struct ObservedExponent {
  bool is_negative = false;
  int exponent_field = 0;
  std::array<uint64_t, kObservedBinsPerExponent> counts = {};
  uint64_t sum = 0;
  std::array<uint64_t, 2> sum_of_squares = {};  // low word, high word
};

// A place to count in, for one thread at a time. Takes half a MiB of address space, of which only
// what the values need becomes memory.
class ObserveCounter {
 public:
  // Most elements that may be counted between two calls of Drain.
  static constexpr uint64_t kMostElements = uint64_t{1} << 31;

  ObserveCounter();
  ~ObserveCounter();
  ObserveCounter(ObserveCounter&&) noexcept;
  ObserveCounter& operator=(ObserveCounter&&) noexcept;

  // Counts these in and returns their range. REQUIRES: no more than kMostElements since Drain.
  ObservedRange Count(std::span<const float> values);
  // The same for half floats, as the floats they are.
  ObservedRange CountHalves(std::span<const uint16_t> values);

  // Gives everything that was counted, exponents in no particular order, and starts anew.
  ObservedTotals Drain(const std::function<void(const ObservedExponent&)>& take);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress::kernels
