// The statistics that calibration keeps of one tensor over any number of samples: counts, extremes,
// sums, and a histogram over the bits of its floats (sign, exponent, top mantissa bits). Everything
// is an integer or an extreme, and sums are kept exactly and rounded when they are read. So the
// same elements give the same statistics in whatever order, portions and machines they came. Memory
// does not grow with the number of elements: it is 2 KiB for each sign and exponent that occurred.
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
#include "base/exact_sum.h"

namespace bitpress::kernels {
class ObserveCounter;
}

namespace bitpress::calibrate {

inline constexpr int kBinBits = 8;  // mantissa bits that tell bins of one exponent apart
inline constexpr uint64_t kMostElements = uint64_t{1} << 62;  // most elements of statistics
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

// The elements of one sign and exponent. A float is m * 2^(max(exponent, 1) - 150), where m holds
// the 24 significant bits (fewer for subnormals). The bin is made of m's 8 bits below the leading
// one.
struct ExponentStatistics {
  std::array<uint64_t, kBinsPerExponent> counts = {};  // bins by growing magnitude
  UInt128 sum = 0;                                     // sum of m
  UInt128 sum_of_squares = 0;                          // sum of m * m

  bool operator==(const ExponentStatistics&) const = default;
};

// The smallest and the largest of some finite elements; empty at first.
struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();

  bool is_empty() const { return min > max; }
  void Add(const Extremes& other);
  bool operator==(const Extremes&) const = default;
};

// The bins of a slice's magnitudes split each power of two into 8 equal parts. The first one begins
// at 0, the last one has no end.
inline constexpr size_t kSliceBins = 256;
// Returns the bin of a finite element.
size_t MagnitudeBinOf(float x);
// Returns the lower edge of a bin; 0 of the first one.
double LowerEdgeOf(size_t magnitude_bin);

// The finite elements of one slice across an axis, for example of one channel.
struct SliceStatistics {
  uint64_t num_finite = 0;
  Extremes extremes;
  ExactSum sum;
  ExactSum sum_of_squares;
  // The counts of magnitudes in kSliceBins bins (MagnitudeBinOf); empty if nobody asked for them.
  std::vector<uint64_t> magnitudes = {};

  float AbsMax() const;  // 0 if there was no element
  bool operator==(const SliceStatistics&) const = default;
};

// The statistics of each slice across one axis, or across two.
struct AxisStatistics {
  int64_t axis = 0;  // the axis, >= 0 or counted from the end
  // An axis before it that tells slices apart, too: there is a slice for each pair of indices, and
  // that of `axis` runs faster. Such slices have histograms.
  std::optional<int64_t> outer_axis = {};
  std::vector<SliceStatistics> slices;  // one slice for each index of the longest axis that came

  bool operator==(const AxisStatistics&) const = default;
};

class TensorStatistics {
 public:
  // Counts elements. This is the specification that the vector kernels equal. Does not touch
  // samples and slices.
  void Add(std::span<const float> values);
  // Adds everything that `counter` of the vector kernels counted. The counter is empty afterwards.
  void AddCounted(kernels::ObserveCounter& counter);
  // Adds one sample's extremes, for the average of extremes. Empty ones are ignored.
  void AddSample(const Extremes& extremes);
  // Counts a tensor into the slices, and nowhere else. A tensor whose rank has no such axis is
  // ignored. `run` runs tasks at the same time; without it this thread does all. The sums are the
  // same. REQUIRES: `values` is a tensor of shape `dims`, and set_axis was called.
  using TaskRunner = std::function<void(size_t num_tasks, const std::function<void(size_t)>& task)>;
  void AddSlices(std::span<const float> values, std::span<const int64_t> dims,
                 const TaskRunner& run = {});
  // Adds everything of the other statistics. Throws Error(kInvalidArgument) if both have slices
  // across different axes, or if together they have too many elements.
  void Merge(const TensorStatistics& other);

  // --- Counts of elements: num_elements == num_nan + both infinities + num_finite ---
  uint64_t num_elements() const;
  uint64_t num_nan() const { return num_nan_; }
  uint64_t num_positive_infinity() const { return num_positive_infinity_; }
  uint64_t num_negative_infinity() const { return num_negative_infinity_; }
  uint64_t num_zeros() const { return num_zeros_; }  // of either sign
  uint64_t num_finite() const { return num_finite_; }
  // Returns whether there is nothing to choose a range from: the value never came, or had no finite
  // element.
  bool is_empty() const { return num_finite_ == 0; }

  // --- Numbers of the finite elements. A zero counts as +0. All require !is_empty(). ---
  float min() const {
    BITPRESS_DCHECK(!is_empty());
    return extremes_.min;
  }
  float max() const {
    BITPRESS_DCHECK(!is_empty());
    return extremes_.max;
  }
  float AbsMax() const;
  // Returns whether all elements were counted with their sums.
  bool has_sums() const { return has_sums_; }
  // Return the exact sums, rounded once to double (half to even). The others are computed from them
  // in double. REQUIRE: has_sums().
  double Sum() const;
  double SumOfSquares() const;
  double Mean() const;
  double Variance() const;  // variance of the population, >= 0
  double StandardDeviation() const;

  // --- The histogram ---
  // Returns the non-empty bins by growing value. Their counts add up to num_finite().
  std::vector<Bin> Bins() const;
  // Returns the bins of magnitudes: those of x and -x are one, and all edges are >= 0.
  std::vector<Bin> MagnitudeBins() const;

  // --- Averages of each sample's extremes. They do not depend on the order of samples, as the
  // "moving average" of other tools does. ---

  // Returns the number of samples in which the value had a finite element.
  uint64_t num_samples() const { return num_samples_; }
  // Return the averages. REQUIRES: num_samples() > 0.
  double MeanOfMinima() const;
  double MeanOfMaxima() const;

  // --- Slices across an axis, if set_axis asked for them ---
  const std::optional<AxisStatistics>& axis_statistics() const { return axis_; }
  // Asks for slices across an axis, or across two. REQUIRES: nothing was counted yet.
  void set_axis(int64_t axis, std::optional<int64_t> outer_axis = {}) {
    BITPRESS_DCHECK(num_elements() == 0);
    axis_ = AxisStatistics{axis, outer_axis, {}};
  }

  bool operator==(const TensorStatistics&) const = default;

 private:
  friend class StatisticsFile;

  // The key of an exponent field 0..254 is itself, or -1 - itself for negative floats, so that the
  // map is in order of value.
  using Exponents = std::map<int, ExponentStatistics>;

  uint64_t num_finite_ = 0;
  uint64_t num_zeros_ = 0;
  uint64_t num_nan_ = 0;
  uint64_t num_positive_infinity_ = 0;
  uint64_t num_negative_infinity_ = 0;
  Extremes extremes_;
  Exponents exponents_;
  bool has_sums_ = true;
  uint64_t num_samples_ = 0;
  ExactSum sum_of_minima_;
  ExactSum sum_of_maxima_;
  std::optional<AxisStatistics> axis_;
};

// Returns statistics of a tensor after each slice of its axis was divided by a factor. Only its
// extremes are known, so these are statistics of two numbers. REQUIRES: there are slices, as many
// as factors, and all factors are positive.
TensorStatistics Divided(const TensorStatistics& statistics, std::span<const double> factors);

}  // namespace bitpress::calibrate
