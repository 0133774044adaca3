#include "kernels/integer_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer_codes.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/reference.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The quotient is a float32, as ONNX has it. All that follows is exact in double, for codes of 32
// bits too, but the two roundings of the result.
constexpr hn::ScalableTag<double> kWide;
constexpr hn::Rebind<float, decltype(kWide)> kNarrow;
constexpr hn::Rebind<int32_t, decltype(kWide)> kCode;
constexpr hn::Rebind<uint32_t, decltype(kWide)> kCodeBits;
constexpr hn::RebindToUnsigned<decltype(kWide)> kWideBits;
using Wide = hn::VFromD<decltype(kWide)>;
using Narrow = hn::VFromD<decltype(kNarrow)>;
constexpr size_t kLanes = hn::MaxLanes(kWide);

// Adding and subtracting it rounds magnitudes below 2^51 to whole numbers, ties to even, and the
// low bits of the sum are those of the whole number.
constexpr double kMagic = 0x1.8p52;

// Gives the parameters of a run's elements: one for all, or one for each.
template <bool kIsShared>
struct Params {
  const float* scales;
  const double* zero_points;

  HWY_INLINE Narrow Scale(size_t i) const {
    return kIsShared ? hn::Set(kNarrow, *scales) : hn::LoadU(kNarrow, scales + i);
  }
  HWY_INLINE Wide ZeroPoint(size_t i) const {
    return kIsShared ? hn::Set(kWide, *zero_points) : hn::LoadU(kWide, zero_points + i);
  }
};

HWY_INLINE void StoreValues(Wide steps, Narrow scale, float* y) {
  hn::StoreU(hn::Mul(hn::DemoteTo(kNarrow, steps), scale), kNarrow, y);
}

HWY_INLINE void QuantizeVector(const float* x, Narrow scale, Wide zero_point,
                               const formats::CodeRange& range, int32_t* codes, float* y) {
  const Wide magic = hn::Set(kWide, kMagic);
  const Wide bound = hn::Set(kWide, 0x1p40);  // all codes saturate beyond it
  const Wide quotient = hn::PromoteTo(kWide, hn::Div(hn::LoadU(kNarrow, x), scale));
  const Wide bounded = hn::Min(hn::Max(quotient, hn::Neg(bound)), bound);
  const Wide whole = hn::Sub(hn::Add(bounded, magic), magic);
  const Wide least = hn::Set(kWide, static_cast<double>(range.quant_min));
  const Wide largest = hn::Set(kWide, static_cast<double>(range.quant_max));
  const Wide code = hn::Min(hn::Max(hn::Add(whole, zero_point), least), largest);
  const auto is_number = hn::Eq(quotient, quotient);
  const Wide saturated = hn::IfThenElse(is_number, code, zero_point);
  if (codes != nullptr) {
    const auto bits = hn::BitCast(kWideBits, hn::Add(saturated, magic));
    hn::StoreU(hn::BitCast(kCode, hn::TruncateTo(kCodeBits, bits)), kCode, codes);
  }
  StoreValues(hn::Sub(saturated, zero_point), scale, y);
}

template <bool kIsShared>
HWY_INLINE void QuantizeAll(const float* x, size_t count, Params<kIsShared> params,
                            const formats::CodeRange& range, int32_t* codes, float* y) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    QuantizeVector(x + i, params.Scale(i), params.ZeroPoint(i), range,
                   codes == nullptr ? nullptr : codes + i, y + i);
  }
  if (i == count) return;
  // The rest as a vector of its own, so that nothing behind it is touched.
  float values[kLanes] = {};
  int32_t rest_codes[kLanes];
  float scales[kLanes];
  double zero_points[kLanes] = {};
  std::fill_n(scales, kLanes, 1.0f);
  const size_t rest = count - i;
  std::copy_n(x + i, rest, values);
  for (size_t lane = 0; lane < rest; ++lane) {
    scales[lane] = params.scales[kIsShared ? 0 : i + lane];
    zero_points[lane] = params.zero_points[kIsShared ? 0 : i + lane];
  }
  const Params<false> own{scales, zero_points};
  QuantizeVector(values, own.Scale(0), own.ZeroPoint(0), range, rest_codes, values);
  if (codes != nullptr) std::copy_n(rest_codes, rest, codes + i);
  std::copy_n(values, rest, y + i);
}

void QuantizeRun(const float* x, size_t count, const float* scales, const double* zero_points,
                 bool is_shared, const formats::CodeRange& range, int32_t* codes, float* y) {
  NoteRun("QuantizeIntegers", NameOfTarget(HWY_TARGET));
  if (is_shared) {
    QuantizeAll<true>(x, count, {scales, zero_points}, range, codes, y);
  } else {
    QuantizeAll<false>(x, count, {scales, zero_points}, range, codes, y);
  }
}

template <bool kIsShared>
HWY_INLINE void DequantizeAll(const int32_t* codes, size_t count, Params<kIsShared> params,
                              float* y) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Wide code = hn::PromoteTo(kWide, hn::LoadU(kCode, codes + i));
    StoreValues(hn::Sub(code, params.ZeroPoint(i)), params.Scale(i), y + i);
  }
  for (; i < count; ++i) {
    const size_t param = kIsShared ? 0 : i;
    y[i] = static_cast<float>(codes[i] - params.zero_points[param]) * params.scales[param];
  }
}

void DequantizeRun(const int32_t* codes, size_t count, const float* scales,
                   const double* zero_points, bool is_shared, float* y) {
  NoteRun("DequantizeIntegers", NameOfTarget(HWY_TARGET));
  if (is_shared) {
    DequantizeAll<true>(codes, count, {scales, zero_points}, y);
  } else {
    DequantizeAll<false>(codes, count, {scales, zero_points}, y);
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
namespace {

using QuantizeKernel = void (*)(const float*, size_t, const float*, const double*, bool,
                                const formats::CodeRange&, int32_t*, float*);
using DequantizeKernel = void (*)(const int32_t*, size_t, const float*, const double*, bool,
                                  float*);
constexpr QuantizeKernel kQuantizeTable[] = BITPRESS_DISPATCH_TABLE(QuantizeRun);
constexpr DequantizeKernel kDequantizeTable[] = BITPRESS_DISPATCH_TABLE(DequantizeRun);

constexpr size_t kElementsPerTask = size_t{1} << 14;

// Holds the parameters as arrays that vectors are loaded from.
class ParamArrays {
 public:
  explicit ParamArrays(std::span<const formats::QParams> params) {
    scales_.reserve(params.size());
    zero_points_.reserve(params.size());
    for (const formats::QParams& of : params) {
      scales_.push_back(of.scale);
      zero_points_.push_back(static_cast<double>(of.zero_point));
      // Below 2^-125 the values that a code means, or subnormal elements that are no code's zero,
      // may fall to a processor that takes subnormal numbers for zero.
      is_normal_ = is_normal_ && std::abs(of.scale) >= 0x1p-125f;
    }
  }
  bool is_normal() const { return is_normal_; }
  const float* scales(size_t first) const { return scales_.data() + first; }
  const double* zero_points(size_t first) const { return zero_points_.data() + first; }

 private:
  std::vector<float> scales_;
  std::vector<double> zero_points_;
  bool is_normal_ = true;
};

// Neighbouring elements that share one parameter, or have neighbouring ones.
struct Run {
  size_t count = 0;
  size_t first_param = 0;
  bool is_shared = true;
};

// Returns the longest run that begins with an element.
Run RunAt(const ParamsLayout& layout, size_t element) {
  const auto outer = static_cast<size_t>(layout.outer);
  const auto axis = static_cast<size_t>(layout.axis);
  const auto inner = static_cast<size_t>(layout.inner);
  const auto length = static_cast<size_t>(layout.length);
  const size_t column = element % inner;
  const size_t index = element / inner % axis;
  const size_t first = layout.IndexOf(element);
  const size_t end_of_part = std::min(axis, (index / length + 1) * length);
  if (layout.is_per_column) {
    if (inner > 1) return {inner - column, first, false};
    return {end_of_part - index, first, true};
  }
  if (length >= axis) return {outer * axis * inner - element, first, true};
  if (inner == 1 && length == 1) return {axis - index, first, false};
  return {(end_of_part - index) * inner - column, first, true};
}

// Calls function(run, begin) for the runs of the whole array, on the threads of the pool. Elements
// do not depend on each other, so it does not matter where tasks cut runs.
template <typename Function>
void ForEachRun(const ParamsLayout& layout, size_t num_elements, ThreadPool& pool,
                const Function& function) {
  pool.ParallelFor((num_elements + kElementsPerTask - 1) / kElementsPerTask, [&](size_t task) {
    const size_t end = std::min(num_elements, (task + 1) * kElementsPerTask);
    for (size_t begin = task * kElementsPerTask; begin < end;) {
      Run run = RunAt(layout, begin);
      run.count = std::min(run.count, end - begin);
      function(run, begin);
      begin += run.count;
    }
  });
}

}  // namespace

size_t ParamsLayout::IndexOf(size_t element) const {
  const auto columns = static_cast<size_t>(inner);
  const size_t part = element / columns % static_cast<size_t>(axis) / static_cast<size_t>(length);
  if (!is_per_column) return part;
  const size_t row = element / columns / static_cast<size_t>(axis);
  return (row * static_cast<size_t>(num_parts()) + part) * columns + element % columns;
}

void QuantizeIntegers(std::span<const float> x, const ParamsLayout& layout,
                      std::span<const formats::QParams> params, formats::CodeRange range,
                      std::span<int32_t> codes, std::span<float> y, ThreadPool& pool) {
  const ParamArrays arrays(params);
  const QuantizeKernel kernel = kQuantizeTable[ChosenTargetIndex()];
  ForEachRun(layout, x.size(), pool, [&](const Run& run, size_t begin) {
    int32_t* const to = codes.empty() ? nullptr : codes.data() + begin;
    if (arrays.is_normal()) {
      kernel(x.data() + begin, run.count, arrays.scales(run.first_param),
             arrays.zero_points(run.first_param), run.is_shared, range, to, y.data() + begin);
      return;
    }
    for (size_t i = 0; i < run.count; ++i) {
      const formats::QParams& of = params[run.first_param + (run.is_shared ? 0 : i)];
      const int64_t code =
          formats::ref::QuantizeInteger(x[begin + i], of.scale, of.zero_point, range);
      if (to != nullptr) to[i] = static_cast<int32_t>(code);
      y[begin + i] = formats::ref::DequantizeInteger(code, of.scale, of.zero_point);
    }
  });
}

void DequantizeIntegers(std::span<const int32_t> codes, const ParamsLayout& layout,
                        std::span<const formats::QParams> params, std::span<float> y,
                        ThreadPool& pool) {
  const ParamArrays arrays(params);
  const DequantizeKernel kernel = kDequantizeTable[ChosenTargetIndex()];
  ForEachRun(layout, codes.size(), pool, [&](const Run& run, size_t begin) {
    if (arrays.is_normal()) {
      kernel(codes.data() + begin, run.count, arrays.scales(run.first_param),
             arrays.zero_points(run.first_param), run.is_shared, y.data() + begin);
      return;
    }
    for (size_t i = 0; i < run.count; ++i) {
      const formats::QParams& of = params[run.first_param + (run.is_shared ? 0 : i)];
      y[begin + i] = formats::ref::DequantizeInteger(codes[begin + i], of.scale, of.zero_point);
    }
  });
}

}  // namespace bitpress::kernels
#endif  // HWY_ONCE
