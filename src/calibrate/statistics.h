// What calibration knows of one tensor after any number of samples: counts, extremes, sums, and a
// histogram over the bits of its floats (sign, exponent, top mantissa bits). Everything here is an
// integer or an extreme, and sums are kept exactly and rounded when they are read, so that the same
// elements give the same statistics in whatever order, portions and machines they came. Memory does
// not grow with the number of elements: 2 KiB for each sign and exponent that occurred.
//
// The bins of the histogram split each power of two into 256 equal parts: a bin is at most 1/256 of
// its values wide. They need no range in advance and are never merged or split. Every method that
// chooses a quantization range is a pure function of these statistics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "calibrate/exact_sum.h"

namespace bitpress::kernels {
class ObserveCounter;
}

namespace bitpress::calibrate {

inline constexpr int kBinBits = 8;  // mantissa bits that tell bins of one exponent apart
inline constexpr uint64_t kMostElements = uint64_t{1} << 62;  // in statistics
inline constexpr size_t kBinsPerExponent = size_t{1} << kBinBits;

// A bin with at least one element. Values lie in [lower, upper) if they are positive, in (lower,
// upper] if they are negative; zeros have a bin of their own with lower == upper == 0. The edges
// are exact in double, those of neighbours are equal. The outermost bins may reach beyond
// TensorStatistics::min() and max(), by 1/256 of these at most.
struct Bin {
  double lower = 0;
  double upper = 0;
  uint64_t count = 0;

  double center() const { return (lower + upper) / 2; }
};

// Elements of one sign and exponent. A float is m * 2^(max(exponent, 1) - 150), where m holds the
// 24 significant bits (fewer for subnormals); the bin is made of m's 8 bits below the leading one.
struct ExponentStatistics {
  std::array<uint64_t, kBinsPerExponent> counts = {};  // by growing magnitude
  UInt128 sum = 0;                                     // of m
  UInt128 sum_of_squares = 0;                          // of m * m

  bool operator==(const ExponentStatistics&) const = default;
};

// The smallest and the largest finite element of something; nothing at first.
struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();

  bool is_empty() const { return min > max; }
  void Add(const Extremes& other);
  bool operator==(const Extremes&) const = default;
};

// One slice across an axis, for example one channel. Of finite elements.
struct SliceStatistics {
  uint64_t num_finite = 0;
  Extremes extremes;
  ExactSum sum;
  ExactSum sum_of_squares;

  float AbsMax() const;  // 0 if nothing came
  bool operator==(const SliceStatistics&) const = default;
};

// Statistics of each slice across one axis.
struct AxisStatistics {
  int64_t axis = 0;                     // >= 0, or counted from the end
  std::vector<SliceStatistics> slices;  // as many as the longest axis that came

  bool operator==(const AxisStatistics&) const = default;
};

class TensorStatistics {
 public:
  // Counts elements in; the specification that the vector kernels equal. Does not touch samples and
  // slices.
  void Add(std::span<const float> values);
  // The same from the vector kernels: everything that `counter` counted; it is empty afterwards.
  void AddCounted(kernels::ObserveCounter& counter);
  // One sample's extremes, for the average of extremes; empty ones are ignored.
  void AddSample(const Extremes& extremes);
  // REQUIRES: `values` is a tensor of shape `dims`, and set_axis was called. Counts it into the
  // slices (only). A tensor whose rank has no such axis is ignored. `run` runs tasks at the same
  // time; without it this thread does all. The sums are the same.
  using TaskRunner = std::function<void(size_t num_tasks, const std::function<void(size_t)>& task)>;
  void AddSlices(std::span<const float> values, std::span<const int64_t> dims,
                 const TaskRunner& run = {});
  // Adds everything of the other one up. Throws Error(kInvalidArgument) if both have slices across
  // different axes, or if they are too many elements together.
  void Merge(const TensorStatistics& other);

  // --- Counts of elements: num_elements == num_nan + both infinities + num_finite ---
  uint64_t num_elements() const;
  uint64_t num_nan() const { return num_nan_; }
  uint64_t num_positive_infinity() const { return num_positive_infinity_; }
  uint64_t num_negative_infinity() const { return num_negative_infinity_; }
  uint64_t num_zeros() const { return num_zeros_; }  // of either sign
  uint64_t num_finite() const { return num_finite_; }
  // Nothing to choose a range from: the value never came, or had no finite element.
  bool is_empty() const { return num_finite_ == 0; }

  // --- Of finite elements. A zero counts as +0. ---
  // REQUIRES for all: !is_empty().
  float min() const {
    BITPRESS_DCHECK(!is_empty());
    return extremes_.min;
  }
  float max() const {
    BITPRESS_DCHECK(!is_empty());
    return extremes_.max;
  }
  float AbsMax() const;
  // The exact sums rounded once to double (half to even); the others are computed from them in
  // double.
  double Sum() const;
  double SumOfSquares() const;
  double Mean() const;
  double Variance() const;  // of the population, >= 0
  double StandardDeviation() const;

  // --- The histogram ---
  // Non-empty bins by growing value. Their counts add up to num_finite().
  std::vector<Bin> Bins() const;
  // The same of magnitudes: the bins of x and -x are one; all edges >= 0.
  std::vector<Bin> MagnitudeBins() const;

  // --- Averages of each sample's extremes: "moving average" of other tools, whose result depends
  // on the order of samples; this one does not ---

  // Samples in which the value had a finite element.
  uint64_t num_samples() const { return num_samples_; }
  // REQUIRES: num_samples() > 0.
  double MeanOfMinima() const;
  double MeanOfMaxima() const;

  // --- Slices across an axis, where asked ---
  const std::optional<AxisStatistics>& axis_statistics() const { return axis_; }
  // Asks for them. REQUIRES: nothing was counted in yet.
  void set_axis(int64_t axis) {
    BITPRESS_DCHECK(num_elements() == 0);
    axis_ = AxisStatistics{axis, {}};
  }

  bool operator==(const TensorStatistics&) const = default;

 private:
  friend class StatisticsFile;

  // Key of an exponent field 0..254: itself, or -1 - itself for negative floats, so that the map is
  // in order of value.
  using Exponents = std::map<int, ExponentStatistics>;

  uint64_t num_finite_ = 0;
  uint64_t num_zeros_ = 0;
  uint64_t num_nan_ = 0;
  uint64_t num_positive_infinity_ = 0;
  uint64_t num_negative_infinity_ = 0;
  Extremes extremes_;
  Exponents exponents_;
  uint64_t num_samples_ = 0;
  ExactSum sum_of_minima_;
  ExactSum sum_of_maxima_;
  std::optional<AxisStatistics> axis_;
};

// What is known of a tensor after each slice of its axis was divided by a factor: its extremes, as
// statistics of these two numbers. REQUIRES: slices, as many as factors, all of them positive.
TensorStatistics Divided(const TensorStatistics& statistics, std::span<const double> factors);

}  // namespace bitpress::calibrate
