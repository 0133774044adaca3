#include "kernels/window_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window_sums.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "formats/float_bits.h"
#include "kernels/dispatch.h"

#ifndef BITPRESS_KERNELS_WINDOW_SUMS_ONCE
#define BITPRESS_KERNELS_WINDOW_SUMS_ONCE
namespace bitpress::kernels {

constexpr int kLowBits = 26;
constexpr uint64_t kLowMask = (uint64_t{1} << kLowBits) - 1;

// Adds one element, and returns whether it is zero or within the window.
inline bool AddOneInWindow(float x, WindowSums& sums) {
  const uint32_t bits = formats::FloatBits(x);
  const float value = x + 0.0F;  // -0 becomes +0
  sums.min = std::min(sums.min, value);
  sums.max = std::max(sums.max, value);
  if (value == 0) return true;
  const int shift =
      static_cast<int>((bits & formats::kFloatExponentMask) >> formats::kFloatMantissaBits) -
      kFirstWindowField;
  if (shift < 0 || shift >= kNumWindowFields) return false;
  const uint64_t t = uint64_t{(bits & formats::kFloatMantissaMask) | 1U << 23} << shift;
  const uint64_t high = t >> kLowBits, low = t & kLowMask;
  sums.sum += (bits >> 31) != 0 ? -static_cast<int64_t>(t) : static_cast<int64_t>(t);
  sums.high_squares += high * high;
  sums.mixed += high * low;
  sums.low_squares += low * low;
  return true;
}

}  // namespace bitpress::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

constexpr std::string_view kTargetName = NameOfTarget(HWY_TARGET);

bool AddInWindow(const float* x, size_t length, WindowSums& sums) {
  NoteRun("AddInWindow", kTargetName);
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<uint64_t> d64;
  const hn::RebindToSigned<decltype(d64)> di64;
  const hn::Rebind<uint32_t, decltype(d64)> d32;  // as many lanes
  const hn::RebindToSigned<decltype(d32)> di32;
  const hn::RebindToFloat<decltype(d32)> df32;
  const hn::Repartition<uint32_t, decltype(d64)> d32_pairs;
  const size_t lanes = hn::Lanes(d64);
  const auto multiply = [&](auto a, auto b) {  // numbers below 2^32
    return hn::MulEven(hn::BitCast(d32_pairs, a), hn::BitCast(d32_pairs, b));
  };
  auto sum = hn::Zero(di64);
  auto high_squares = hn::Zero(d64), mixed = hn::Zero(d64), low_squares = hn::Zero(d64);
  auto min = hn::Set(df32, sums.min), max = hn::Set(df32, sums.max);
  auto outside = hn::Zero(d32);
  const auto first_field = hn::Set(d32, static_cast<uint32_t>(kFirstWindowField));
  for (; i + lanes <= length; i += lanes) {
    const auto value = hn::Add(hn::LoadU(df32, x + i), hn::Zero(df32));  // -0 becomes +0
    min = hn::Min(min, value);
    max = hn::Max(max, value);
    const auto bits = hn::BitCast(d32, value);
    const auto is_zero = hn::Eq(bits, hn::Zero(d32));
    const auto field = hn::And(hn::ShiftRight<23>(bits), hn::Set(d32, 0xFFU));
    // Fields below the first one wrap around to large shifts.
    const auto shift = hn::IfThenZeroElse(is_zero, hn::Sub(field, first_field));
    outside =
        hn::Or(outside,
               hn::VecFromMask(
                   d32, hn::Gt(shift, hn::Set(d32, static_cast<uint32_t>(kNumWindowFields - 1)))));
    const auto significand = hn::IfThenZeroElse(
        is_zero, hn::Or(hn::And(bits, hn::Set(d32, 0x007FFFFFU)), hn::Set(d32, 1U << 23)));
    const auto t = hn::Shl(hn::PromoteTo(d64, significand),
                           hn::And(hn::PromoteTo(d64, shift), hn::Set(d64, 63)));
    const auto sign = hn::PromoteTo(di64, hn::BroadcastSignBit(hn::BitCast(di32, bits)));
    sum = hn::Add(sum, hn::Sub(hn::Xor(hn::BitCast(di64, t), sign), sign));
    const auto high = hn::ShiftRight<kLowBits>(t);
    const auto low = hn::And(t, hn::Set(d64, kLowMask));
    high_squares = hn::Add(high_squares, multiply(high, high));
    mixed = hn::Add(mixed, multiply(high, low));
    low_squares = hn::Add(low_squares, multiply(low, low));
  }
  if (!hn::AllTrue(d32, hn::Eq(outside, hn::Zero(d32)))) return false;
  sums.sum += hn::GetLane(hn::SumOfLanes(di64, sum));
  sums.high_squares += hn::GetLane(hn::SumOfLanes(d64, high_squares));
  sums.mixed += hn::GetLane(hn::SumOfLanes(d64, mixed));
  sums.low_squares += hn::GetLane(hn::SumOfLanes(d64, low_squares));
  sums.min = hn::GetLane(hn::MinOfLanes(df32, min));
  sums.max = hn::GetLane(hn::MaxOfLanes(df32, max));
#endif
  for (; i < length; ++i) {
    if (!AddOneInWindow(x[i], sums)) return false;
  }
  return true;
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using WindowKernel = bool (*)(const float*, size_t, WindowSums&);
constexpr std::array<WindowKernel, kTargetNames.size()> kAddInWindowTable =
    BITPRESS_DISPATCH_TABLE(AddInWindow);

bool AddInWindow(std::span<const float> values, WindowSums& sums) {
  BITPRESS_DCHECK(values.size() <= kMostWindowElements);
  return kAddInWindowTable[ChosenTargetIndex()](values.data(), values.size(), sums);
}

}  // namespace bitpress::kernels
#endif
