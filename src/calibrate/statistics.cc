#include "calibrate/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/tensor.h"
#include "calibrate/slice_sums.h"
#include "formats/float_bits.h"
#include "kernels/observe.h"

namespace bitpress::calibrate {
namespace {

// The key of a magnitude is its exponent and the three bits behind it.
constexpr int kKeyShift = formats::kFloatMantissaBits - 3;
// The first bin ends above 2^-24, the last one begins below 2^8.
constexpr size_t kFirstKey = (127 - 24) * 8;

using formats::FloatBits;

static_assert(kBinBits == kernels::kObservedBits);

constexpr int kLowBits = formats::kFloatMantissaBits - kBinBits;

int KeyOf(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> formats::kFloatMantissaBits & 0xFFu);
  return (bits >> 31) != 0 ? -1 - exponent : exponent;
}

int ExponentOf(int key) { return key < 0 ? -1 - key : key; }

// Returns the exponent of the unit of the significands of an exponent field.
int UnitExponent(int exponent_field) { return std::max(exponent_field, 1) - 150; }

// Returns a bin with its edges as magnitudes. The upper edge of the largest floats is 2^128.
Bin MagnitudeBin(int exponent_field, size_t index, uint64_t count) {
  const size_t implicit = exponent_field == 0 ? 0 : kBinsPerExponent;
  const int exponent = UnitExponent(exponent_field) + kLowBits;
  return {std::ldexp(static_cast<double>(implicit + index), exponent),
          std::ldexp(static_cast<double>(implicit + index + 1), exponent), count};
}

// Returns x, or +0 for a zero.
float PlainZero(float x) { return (FloatBits(x) << 1) == 0 ? 0.0f : x; }

}  // namespace

void Extremes::Add(const Extremes& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

size_t MagnitudeBinOf(float x) {
  const size_t key = (formats::FloatBits(x) & 0x7FFFFFFFu) >> kKeyShift;
  return std::clamp(key, kFirstKey, kFirstKey + kSliceBins - 1) - kFirstKey;
}

double LowerEdgeOf(size_t magnitude_bin) {
  if (magnitude_bin == 0) return 0;
  return formats::FloatFromBits(static_cast<uint32_t>(kFirstKey + magnitude_bin) << kKeyShift);
}

float SliceStatistics::AbsMax() const {
  return extremes.is_empty() ? 0.0f : std::max(std::fabs(extremes.min), std::fabs(extremes.max));
}

void TensorStatistics::Add(std::span<const float> values) {
  for (const float x : values) {
    const uint32_t bits = FloatBits(x);
    if (formats::IsNan(x)) {
      ++num_nan_;
      continue;
    }
    if (!formats::IsFinite(x)) {
      ++((bits >> 31) != 0 ? num_negative_infinity_ : num_positive_infinity_);
      continue;
    }
    ++num_finite_;
    extremes_.Add({PlainZero(x), PlainZero(x)});
    if ((bits << 1) == 0) {
      ++num_zeros_;
      continue;
    }
    ExponentStatistics& exponent = exponents_[KeyOf(bits)];
    const uint32_t mantissa = bits & formats::kFloatMantissaMask;
    const uint64_t significand =
        mantissa | (formats::BiasedExponent(x) == 0 ? 0u : 1u << formats::kFloatMantissaBits);
    ++exponent.counts[mantissa >> kLowBits];
    exponent.sum += significand;
    exponent.sum_of_squares += significand * significand;
  }
}

void TensorStatistics::AddCounted(kernels::ObserveCounter& counter) {
  const kernels::ObservedTotals totals =
      counter.Drain([&](const kernels::ObservedExponent& counted) {
        const int field = counted.exponent_field;
        ExponentStatistics& exponent = exponents_[counted.is_negative ? -1 - field : field];
        // The compiler makes vectors of this if it knows that the counts lie apart.
        uint64_t* const __restrict counts = exponent.counts.data();
        for (size_t i = 0; i < kBinsPerExponent; ++i) counts[i] += counted.counts[i];
        exponent.sum += counted.sum;
        exponent.sum_of_squares +=
            UInt128{counted.sum_of_squares[1]} << 64 | counted.sum_of_squares[0];
      });
  has_sums_ = has_sums_ && counter.has_sums();
  num_finite_ += totals.num_finite;
  num_zeros_ += totals.num_zeros;
  num_nan_ += totals.num_nan;
  num_positive_infinity_ += totals.num_positive_infinity;
  num_negative_infinity_ += totals.num_negative_infinity;
  if (totals.num_finite > 0) extremes_.Add({totals.range.min, totals.range.max});
}

void TensorStatistics::AddSample(const Extremes& extremes) {
  if (extremes.is_empty()) return;
  ++num_samples_;
  sum_of_minima_.Add(extremes.min);
  sum_of_maxima_.Add(extremes.max);
}

void TensorStatistics::AddSlices(std::span<const float> values, std::span<const int64_t> dims,
                                 const TaskRunner& run) {
  BITPRESS_DCHECK(axis_.has_value());
  BITPRESS_DCHECK(values.size() == static_cast<size_t>(NumElements(dims)));
  const auto rank = static_cast<int64_t>(dims.size());
  const auto from_start = [&](int64_t axis) { return axis < 0 ? axis + rank : axis; };
  const int64_t axis = from_start(axis_->axis);
  const int64_t outer_axis = axis_->outer_axis ? from_start(*axis_->outer_axis) : -1;
  if (axis < 0 || axis >= rank || outer_axis >= axis || values.empty()) return;
  if (axis_->outer_axis && outer_axis < 0) return;
  const auto size_between = [&](int64_t begin, int64_t end) {
    size_t size = 1;
    for (int64_t i = begin; i < end; ++i) size *= static_cast<size_t>(dims[static_cast<size_t>(i)]);
    return size;
  };
  const size_t length = size_between(axis, axis + 1);
  const size_t inner = size_between(axis + 1, rank);
  // Without an outer axis, the whole tensor is one part [outer, length, inner].
  const size_t num_parts = outer_axis < 0 ? 1 : size_between(outer_axis, outer_axis + 1);
  const size_t part_size = outer_axis < 0 ? values.size() : size_between(outer_axis + 1, rank);
  std::vector<SliceStatistics>& slices = axis_->slices;
  if (slices.size() < num_parts * length) slices.resize(num_parts * length);
  if (outer_axis >= 0) {
    for (SliceStatistics& slice : slices) slice.magnitudes.resize(kSliceBins);
  }
  // The least elements that are worth a thread's start.
  constexpr size_t kLeastElementsPerTask = size_t{1} << 14;
  const size_t num_tasks = run ? std::clamp<size_t>(values.size() / kLeastElementsPerTask, 1,
                                                    std::min<size_t>(length, 64))
                               : 1;
  const auto add = [&](size_t task) {
    for (size_t first = 0; first < values.size(); first += part_size) {
      const size_t part = first / part_size % num_parts;
      AddSliceRange(values.subspan(first, part_size), length, inner, task * length / num_tasks,
                    (task + 1) * length / num_tasks,
                    std::span(slices).subspan(part * length, length));
    }
  };
  if (num_tasks == 1) return add(0);
  run(num_tasks, add);
}

void TensorStatistics::Merge(const TensorStatistics& other) {
  if (axis_ && other.axis_ &&
      (axis_->axis != other.axis_->axis || axis_->outer_axis != other.axis_->outer_axis)) {
    Fail(ErrorCode::kInvalidArgument, "one has statistics across axis {}, the other across axis {}",
         axis_->axis, other.axis_->axis);
  }
  if (other.num_elements() > kMostElements - num_elements()) {
    Fail(ErrorCode::kInvalidArgument, "{} and {} elements are too many", num_elements(),
         other.num_elements());
  }
  num_finite_ += other.num_finite_;
  num_zeros_ += other.num_zeros_;
  num_nan_ += other.num_nan_;
  num_positive_infinity_ += other.num_positive_infinity_;
  num_negative_infinity_ += other.num_negative_infinity_;
  extremes_.Add(other.extremes_);
  has_sums_ = has_sums_ && other.has_sums_;
  for (const auto& [key, from] : other.exponents_) {
    ExponentStatistics& to = exponents_[key];
    for (size_t i = 0; i < kBinsPerExponent; ++i) to.counts[i] += from.counts[i];
    to.sum += from.sum;
    to.sum_of_squares += from.sum_of_squares;
  }
  num_samples_ += other.num_samples_;
  sum_of_minima_.Add(other.sum_of_minima_);
  sum_of_maxima_.Add(other.sum_of_maxima_);
  if (!other.axis_) return;
  if (!axis_) axis_ = AxisStatistics{other.axis_->axis, other.axis_->outer_axis, {}};
  if (axis_->slices.size() < other.axis_->slices.size()) {
    axis_->slices.resize(other.axis_->slices.size());
  }
  for (size_t i = 0; i < other.axis_->slices.size(); ++i) {
    SliceStatistics& to = axis_->slices[i];
    const SliceStatistics& from = other.axis_->slices[i];
    to.num_finite += from.num_finite;
    to.extremes.Add(from.extremes);
    to.sum.Add(from.sum);
    to.sum_of_squares.Add(from.sum_of_squares);
    to.magnitudes.resize(std::max(to.magnitudes.size(), from.magnitudes.size()));
    for (size_t k = 0; k < from.magnitudes.size(); ++k) to.magnitudes[k] += from.magnitudes[k];
  }
}

uint64_t TensorStatistics::num_elements() const {
  return num_finite_ + num_nan_ + num_positive_infinity_ + num_negative_infinity_;
}

float TensorStatistics::AbsMax() const { return std::max(std::fabs(min()), std::fabs(max())); }

double TensorStatistics::Sum() const {
  BITPRESS_DCHECK(has_sums_);
  ExactSum sum;
  for (const auto& [key, exponent] : exponents_) {
    sum.AddScaled(exponent.sum, UnitExponent(ExponentOf(key)), key < 0);
  }
  return sum.Round();
}

double TensorStatistics::SumOfSquares() const {
  BITPRESS_DCHECK(has_sums_);
  ExactSum sum;
  for (const auto& [key, exponent] : exponents_) {
    sum.AddScaled(exponent.sum_of_squares, 2 * UnitExponent(ExponentOf(key)), false);
  }
  return sum.Round();
}

double TensorStatistics::Mean() const {
  BITPRESS_DCHECK(!is_empty());
  return Sum() / static_cast<double>(num_finite_);
}

double TensorStatistics::Variance() const {
  const double mean = Mean();
  return std::max(0.0, SumOfSquares() / static_cast<double>(num_finite_) - mean * mean);
}

double TensorStatistics::StandardDeviation() const { return std::sqrt(Variance()); }

std::vector<Bin> TensorStatistics::Bins() const {
  std::vector<Bin> bins;
  const auto add_zeros = [&] {
    if (num_zeros_ > 0) bins.push_back({0, 0, num_zeros_});
  };
  bool is_past_zero = false;
  for (const auto& [key, exponent] : exponents_) {
    if (key >= 0 && !is_past_zero) {
      is_past_zero = true;
      add_zeros();
    }
    for (size_t i = 0; i < kBinsPerExponent; ++i) {
      const size_t index = key < 0 ? kBinsPerExponent - 1 - i : i;
      if (exponent.counts[index] == 0) continue;
      const Bin bin = MagnitudeBin(ExponentOf(key), index, exponent.counts[index]);
      bins.push_back(key < 0 ? Bin{-bin.upper, -bin.lower, bin.count} : bin);
    }
  }
  if (!is_past_zero) add_zeros();
  return bins;
}

std::vector<Bin> TensorStatistics::MagnitudeBins() const {
  std::vector<Bin> bins;
  if (num_zeros_ > 0) bins.push_back({0, 0, num_zeros_});
  for (int field = 0; field < 255; ++field) {
    const auto positive = exponents_.find(field);
    const auto negative = exponents_.find(-1 - field);
    for (size_t i = 0; i < kBinsPerExponent; ++i) {
      uint64_t count = 0;
      if (positive != exponents_.end()) count += positive->second.counts[i];
      if (negative != exponents_.end()) count += negative->second.counts[i];
      if (count > 0) bins.push_back(MagnitudeBin(field, i, count));
    }
  }
  return bins;
}

double TensorStatistics::MeanOfMinima() const { return sum_of_minima_.Mean(num_samples_); }
double TensorStatistics::MeanOfMaxima() const { return sum_of_maxima_.Mean(num_samples_); }

TensorStatistics Divided(const TensorStatistics& statistics, std::span<const double> factors) {
  BITPRESS_DCHECK(statistics.axis_statistics().has_value());
  Extremes all;
  const std::vector<SliceStatistics>& slices = statistics.axis_statistics()->slices;
  BITPRESS_DCHECK(slices.size() == factors.size());
  BITPRESS_DCHECK(std::ranges::all_of(factors, [](double factor) { return factor > 0; }));
  for (size_t i = 0; i < slices.size(); ++i) {
    const Extremes& slice = slices[i].extremes;
    if (slice.is_empty()) continue;
    all.Add(
        {static_cast<float>(slice.min / factors[i]), static_cast<float>(slice.max / factors[i])});
  }
  TensorStatistics divided;
  if (all.is_empty()) return divided;
  const std::array<float, 2> ends{all.min, all.max};
  divided.Add(ends);
  divided.AddSample(all);
  return divided;
}

}  // namespace bitpress::calibrate
