#include "calibrate/calibration_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/byte_stream.h"
#include "base/check.h"
#include "base/paths.h"
#include "base/version.h"
#include "data/failures.h"
#include "formats/float_bits.h"

namespace bitpress::calibrate {
namespace {

constexpr FileFormat kFormat = {kCalibrationMagic, "calibration file", 1};  // docs/versions.md
// The least bytes of a tensor (with an empty name), an exponent and a slice.
constexpr size_t kLeastTensorBytes = 1 + 5 + 8 + 1 + 2 * 80 + 1 + 1;
constexpr size_t kLeastExponentBytes = 2 + 2 * 16 + 32 + 1;
constexpr size_t kSliceBytes = 8 + 8 + 2 * 80;

[[noreturn]] void FailDamaged(std::string_view why) {
  ByteReader({}, kFormat.kind).FailDamaged(why);
}

void WriteExtremes(ByteWriter& out, const Extremes& extremes) {
  out.Float(extremes.min);
  out.Float(extremes.max);
}

bool IsPlain(float x) { return formats::IsFinite(x) && formats::FloatBits(x) != 0x80000000u; }

// Reads the extremes of `num_finite` elements.
Extremes ReadExtremes(ByteReader& in, uint64_t num_finite) {
  Extremes extremes{in.Float(), in.Float()};
  const bool is_right = num_finite == 0 ? extremes == Extremes{}
                                        : IsPlain(extremes.min) && IsPlain(extremes.max) &&
                                              extremes.min <= extremes.max;
  if (!is_right) FailDamaged("minimum and maximum of a tensor are no range of finite numbers");
  return extremes;
}

// Checks that the mean of `count` numbers lies in [min, max]. Of no numbers the sum is 0.
void CheckMean(const ExactSum& sum, uint64_t count, double min, double max) {
  // Far above the roundings to double: of the sum, of the count and of the quotient.
  constexpr double kTolerance = 1e-12;
  const double mean = count == 0 ? 0.0 : sum.Mean(count);
  const bool is_right = count == 0 ? sum == ExactSum{}
                                   : mean >= min - kTolerance * std::fabs(min) &&
                                         mean <= max + kTolerance * std::fabs(max);
  if (!is_right) FailDamaged("the sums of a tensor contradict its extremes");
}

void AddCount(uint64_t& sum, uint64_t count) {
  if (count > kMostElements - sum) FailDamaged("a tensor has too many elements");
  sum += count;
}

void WriteExponent(ByteWriter& out, int key, const ExponentStatistics& exponent) {
  out.Number(static_cast<uint16_t>(key));
  out.Wide(exponent.sum);
  out.Wide(exponent.sum_of_squares);
  for (size_t first = 0; first < kBinsPerExponent; first += 64) {
    uint64_t used = 0;
    for (size_t i = 0; i < 64; ++i) {
      used |= uint64_t{exponent.counts[first + i] > 0 ? 1u : 0u} << i;
    }
    out.Number(used);
  }
  for (const uint64_t count : exponent.counts) {
    if (count > 0) out.Compact(count);
  }
}

// Reads an exponent, and adds its elements to `num_elements`.
ExponentStatistics ReadExponent(ByteReader& in, uint64_t& num_elements) {
  ExponentStatistics exponent;
  exponent.sum = in.Wide();
  exponent.sum_of_squares = in.Wide();
  std::array<uint64_t, kBinsPerExponent / 64> used;
  for (uint64_t& word : used) word = in.Number<uint64_t>();
  uint64_t in_exponent = 0;
  for (size_t i = 0; i < kBinsPerExponent; ++i) {
    if ((used[i / 64] >> (i % 64) & 1u) == 0) continue;
    exponent.counts[i] = in.Compact();
    if (exponent.counts[i] == 0) FailDamaged("a bin in use is empty");
    AddCount(in_exponent, exponent.counts[i]);
  }
  // A significand is below 2^24, so these hold whatever was counted.
  const bool is_right = in_exponent > 0 && exponent.sum < UInt128{in_exponent} << 24 &&
                        exponent.sum_of_squares < UInt128{in_exponent} << 48;
  if (!is_right) FailDamaged("the sums of a tensor do not fit its counts");
  AddCount(num_elements, in_exponent);
  return exponent;
}

// Writes the first bin in use, their number, and their counts.
void WriteMagnitudes(ByteWriter& out, const SliceStatistics& slice) {
  const auto is_used = [](uint64_t count) { return count > 0; };
  const auto begin = std::ranges::find_if(slice.magnitudes, is_used);
  auto end = slice.magnitudes.end();
  while (end != begin && !is_used(end[-1])) --end;
  out.Compact(static_cast<uint64_t>(begin - slice.magnitudes.begin()));
  out.Compact(static_cast<uint64_t>(end - begin));
  for (auto at = begin; at != end; ++at) out.Compact(*at);
}

void ReadMagnitudes(ByteReader& in, SliceStatistics& slice) {
  const uint64_t first = in.Compact();
  const uint64_t count = in.Compact();
  if (first > kSliceBins || count > kSliceBins - first) FailDamaged("a slice has too many bins");
  slice.magnitudes.resize(kSliceBins);
  uint64_t sum = 0;
  for (uint64_t i = first; i < first + count; ++i) {
    slice.magnitudes[i] = in.Compact();
    AddCount(sum, slice.magnitudes[i]);
  }
  const bool is_largest = count == 0 || first + count - 1 == MagnitudeBinOf(slice.AbsMax());
  if (sum != slice.num_finite || !is_largest) {
    FailDamaged("the bins of a slice contradict its elements");
  }
}

// The words for the slices of a tensor in a file.
enum SlicesWord : uint8_t { kNoSlices = 0, kSlices = 1, kSlicesOfTwoAxes = 2 };

SlicesWord WordOf(const std::optional<AxisStatistics>& axis) {
  if (!axis) return kNoSlices;
  return axis->outer_axis ? kSlicesOfTwoAxes : kSlices;
}

void WriteAxis(ByteWriter& out, const AxisStatistics& axis) {
  out.Number(axis.axis);
  if (axis.outer_axis) out.Number(*axis.outer_axis);
  out.Compact(axis.slices.size());
  for (const SliceStatistics& slice : axis.slices) {
    out.Number(slice.num_finite);
    WriteExtremes(out, slice.extremes);
    out.Sum(slice.sum);
    out.Sum(slice.sum_of_squares);
    if (axis.outer_axis) WriteMagnitudes(out, slice);
  }
}

// Reads the slices of a tensor with `num_finite` elements between `tensor`'s extremes. There may be
// no slices: of a tensor that never had the axis.
AxisStatistics ReadAxis(ByteReader& in, bool has_outer_axis, uint64_t num_finite,
                        const Extremes& tensor) {
  AxisStatistics axis;
  uint64_t in_slices = 0;
  axis.axis = in.Number<int64_t>();
  if (has_outer_axis) axis.outer_axis = in.Number<int64_t>();
  axis.slices.resize(in.Count(kSliceBytes));
  for (SliceStatistics& slice : axis.slices) {
    slice.num_finite = in.Number<uint64_t>();
    slice.extremes = ReadExtremes(in, slice.num_finite);
    slice.sum = in.Sum();
    slice.sum_of_squares = in.Sum();
    AddCount(in_slices, slice.num_finite);
    const Extremes& own = slice.extremes;
    const bool is_inside = own.is_empty() || (own.min >= tensor.min && own.max <= tensor.max);
    if (in_slices > num_finite || !is_inside) FailDamaged("a slice holds more than its tensor");
    CheckMean(slice.sum, slice.num_finite, own.min, own.max);
    const double largest = slice.AbsMax();
    CheckMean(slice.sum_of_squares, slice.num_finite, 0, largest * largest);
    if (has_outer_axis) ReadMagnitudes(in, slice);
  }
  return axis;
}

}  // namespace

// The file's view of TensorStatistics.
class StatisticsFile {
 public:
  static void Write(ByteWriter& out, const TensorStatistics& tensor) {
    BITPRESS_DCHECK(tensor.has_sums());
    for (const uint64_t count : {tensor.num_finite_, tensor.num_zeros_, tensor.num_nan_,
                                 tensor.num_positive_infinity_, tensor.num_negative_infinity_}) {
      out.Compact(count);
    }
    WriteExtremes(out, tensor.extremes_);
    out.Compact(tensor.num_samples_);
    out.Sum(tensor.sum_of_minima_);
    out.Sum(tensor.sum_of_maxima_);
    out.Compact(tensor.exponents_.size());
    for (const auto& [key, exponent] : tensor.exponents_) WriteExponent(out, key, exponent);
    out.Number(static_cast<uint8_t>(WordOf(tensor.axis_)));
    if (tensor.axis_) WriteAxis(out, *tensor.axis_);
  }

  static TensorStatistics Read(ByteReader& in) {
    TensorStatistics tensor;
    uint64_t num_elements = 0;
    for (uint64_t* const count : {&tensor.num_finite_, &tensor.num_zeros_, &tensor.num_nan_,
                                  &tensor.num_positive_infinity_, &tensor.num_negative_infinity_}) {
      *count = in.Compact();
      if (count != &tensor.num_zeros_) AddCount(num_elements, *count);
    }
    tensor.extremes_ = ReadExtremes(in, tensor.num_finite_);
    tensor.num_samples_ = in.Compact();
    tensor.sum_of_minima_ = in.Sum();
    tensor.sum_of_maxima_ = in.Sum();
    CheckSamples(tensor);
    ReadExponents(in, tensor);
    CheckExtremes(tensor);
    const auto word = in.Number<uint8_t>();
    if (word > kSlicesOfTwoAxes) {
      FailDamaged(fmt::format("invalid value {} of 'slices'", word));
    }
    if (word != kNoSlices) {
      tensor.axis_ = ReadAxis(in, word == kSlicesOfTwoAxes, tensor.num_finite_, tensor.extremes_);
    }
    return tensor;
  }

 private:
  // Each counted sample had a finite element, and extremes among those of the tensor.
  static void CheckSamples(const TensorStatistics& tensor) {
    if (tensor.num_samples_ > tensor.num_finite_) FailDamaged("a tensor has too many samples");
    const Extremes& all = tensor.extremes_;
    CheckMean(tensor.sum_of_minima_, tensor.num_samples_, all.min, all.max);
    CheckMean(tensor.sum_of_maxima_, tensor.num_samples_, all.min, all.max);
    if (tensor.sum_of_minima_.Round() > tensor.sum_of_maxima_.Round()) {
      FailDamaged("the sums of a tensor contradict its extremes");
    }
  }

  // The extremes lie in the outermost bins.
  static void CheckExtremes(const TensorStatistics& tensor) {
    if (tensor.is_empty()) return;
    const std::vector<Bin> bins = tensor.Bins();
    const auto holds = [](const Bin& bin, float x) { return bin.lower <= x && x <= bin.upper; };
    if (!holds(bins.front(), tensor.min()) || !holds(bins.back(), tensor.max())) {
      FailDamaged("the extremes of a tensor contradict its bins");
    }
  }

  static void ReadExponents(ByteReader& in, TensorStatistics& tensor) {
    constexpr int kLargest = 254;
    uint64_t num_finite = tensor.num_zeros_;
    int last = -1 - kLargest - 1;
    for (size_t left = in.Count(kLeastExponentBytes); left > 0; --left) {
      const int key = static_cast<int16_t>(in.Number<uint16_t>());
      if (key <= last || key > kLargest) FailDamaged("the exponents of a tensor are not in order");
      last = key;
      tensor.exponents_.emplace(key, ReadExponent(in, num_finite));
    }
    if (num_finite != tensor.num_finite_) FailDamaged("the counts of a tensor do not add up");
  }
};

std::string ToBytes(const CalibrationTable& table) {
  ByteWriter out = BeginFile(kFormat);
  out.Number(table.model_fingerprint);
  out.Number(table.num_samples);
  out.Number(static_cast<uint32_t>(kBinBits));
  out.Text(table.model_name);
  out.Compact(table.tensors.size());
  for (const auto& [name, tensor] : table.tensors) {
    out.Text(name);
    StatisticsFile::Write(out, tensor);
  }
  data::WriteLeftOut(out, table.left_out);
  return EndFile(std::move(out));
}

CalibrationTable FromBytes(std::string_view bytes) {
  ByteReader in = OpenFile(bytes, kFormat);
  CalibrationTable table;
  table.model_fingerprint = in.Number<uint64_t>();
  table.num_samples = in.Number<uint64_t>();
  if (in.Number<uint32_t>() != kBinBits) FailDamaged("its bins have another width");
  table.model_name = in.Text();
  for (size_t left = in.Count(kLeastTensorBytes); left > 0; --left) {
    std::string name = in.Text();
    if (!table.tensors.empty() && name <= table.tensors.rbegin()->first) {
      FailDamaged("its tensors are not in order");
    }
    TensorStatistics tensor = WithContext(name, [&] { return StatisticsFile::Read(in); });
    table.tensors.emplace(std::move(name), std::move(tensor));
  }
  table.left_out = data::ReadLeftOut(in);
  in.ExpectEnd();
  return table;
}

void SaveCalibration(const std::filesystem::path& path, const CalibrationTable& table) {
  WriteFile(path, ToBytes(table));
}

CalibrationTable LoadCalibration(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  return WithContext(fmt::format("'{}'", PathText(path)), [&] { return FromBytes(bytes); });
}

bool IsCalibrationFile(const std::filesystem::path& path) { return HasFormat(path, kFormat); }

}  // namespace bitpress::calibrate
