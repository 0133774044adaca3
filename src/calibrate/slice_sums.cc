#include "calibrate/slice_sums.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "formats/float_bits.h"
#include "kernels/window_sums.h"

namespace bitpress::calibrate {
namespace {

__extension__ typedef __int128 Int128;

// Exponent fields kFirstField to kFirstField + kNumFields - 1 are added in 128 bits. A square has
// 48 bits and is shifted by up to 2 * 28.
constexpr int kFirstField = kernels::kFirstWindowField;
constexpr int kNumFields = kernels::kNumWindowFields;
// The number of terms of up to 104 bits whose sum fits 127 bits.
constexpr uint64_t kMostTerms = uint64_t{1} << 22;

// The fewest elements side by side that are added as vectors.
constexpr size_t kLeastSideBySide = 16;

class Accumulator {
 public:
  void Add(float x, SliceStatistics& slice) {
    const uint32_t bits = formats::FloatBits(x);
    const int field = static_cast<int>((bits >> formats::kFloatMantissaBits) & 0xFF);
    if (field == 0xFF) return;  // NaN or infinity
    ++num_finite_;
    const float value = x + 0.0F;  // -0 counts as +0
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    const int shift = field - kFirstField;
    if (shift < 0 || shift >= kNumFields) {
      if (value == 0) return;
      slice.sum.Add(x);
      slice.sum_of_squares.AddSquare(x);
      return;
    }
    const uint64_t significand =
        (bits & formats::kFloatMantissaMask) | 1U << formats::kFloatMantissaBits;
    const auto term = static_cast<Int128>(significand << shift);
    sum_ += (bits >> 31) != 0 ? -term : term;
    squares_ += static_cast<UInt128>(significand * significand) << (2 * shift);
    if (++num_terms_ >= kMostTerms) Flush(slice);
  }

  // Adds elements that lie side by side.
  void Add(std::span<const float> values, SliceStatistics& slice) {
    for (size_t first = 0; first < values.size(); first += kernels::kMostWindowElements) {
      const auto part =
          values.subspan(first, std::min(values.size() - first, kernels::kMostWindowElements));
      kernels::WindowSums sums;
      if (!kernels::AddInWindow(part, sums)) {
        for (const float x : part) Add(x, slice);
        continue;
      }
      num_finite_ += part.size();
      min_ = std::min(min_, sums.min);
      max_ = std::max(max_, sums.max);
      sum_ += sums.sum;
      squares_ += (static_cast<UInt128>(sums.high_squares) << 52) +
                  (static_cast<UInt128>(sums.mixed) << 27) + sums.low_squares;
      num_terms_ += part.size();
      if (num_terms_ >= kMostTerms) Flush(slice);
    }
  }

  void End(SliceStatistics& slice) {
    Flush(slice);
    slice.num_finite += num_finite_;
    if (num_finite_ > 0) slice.extremes.Add({min_, max_});
  }

 private:
  void Flush(SliceStatistics& slice) {
    if (num_terms_ == 0) return;
    // The significand of field f means significand * 2^(f - 150).
    constexpr int kUnit = kFirstField - 150;
    const bool is_negative = sum_ < 0;
    slice.sum.AddScaled(static_cast<UInt128>(is_negative ? -sum_ : sum_), kUnit, is_negative);
    slice.sum_of_squares.AddScaled(squares_, 2 * kUnit, false);
    sum_ = 0;
    squares_ = 0;
    num_terms_ = 0;
  }

  Int128 sum_ = 0;
  UInt128 squares_ = 0;
  uint64_t num_terms_ = 0;
  uint64_t num_finite_ = 0;
  float min_ = std::numeric_limits<float>::infinity();
  float max_ = -std::numeric_limits<float>::infinity();
};

}  // namespace

void AddSliceRange(std::span<const float> values, size_t num_slices, size_t inner, size_t begin,
                   size_t end, std::span<SliceStatistics> slices) {
  const size_t row = num_slices * inner;
  BITPRESS_DCHECK(begin <= end && end <= num_slices && num_slices <= slices.size());
  BITPRESS_DCHECK(row == 0 ? values.empty() : values.size() % row == 0);
  std::vector<Accumulator> accumulators(end - begin);
  for (size_t first = 0; row > 0 && first < values.size(); first += row) {
    for (size_t slice = begin; slice < end; ++slice) {
      Accumulator& accumulator = accumulators[slice - begin];
      std::vector<uint64_t>& magnitudes = slices[slice].magnitudes;
      const auto elements = values.subspan(first + slice * inner, inner);
      if (inner >= kLeastSideBySide && magnitudes.empty()) {
        accumulator.Add(elements, slices[slice]);
        continue;
      }
      for (const float x : elements) {
        accumulator.Add(x, slices[slice]);
        if (!magnitudes.empty() && formats::IsFinite(x)) ++magnitudes[MagnitudeBinOf(x)];
      }
    }
  }
  for (size_t slice = begin; slice < end; ++slice) accumulators[slice - begin].End(slices[slice]);
}

}  // namespace bitpress::calibrate
