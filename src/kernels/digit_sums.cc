#include "kernels/digit_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/digit_sums.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/digit_sums.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kDigitStep> kD;
constexpr hn::RebindToSigned<decltype(kD)> kI;

float Largest(const float* terms, size_t size) {
  auto largest = hn::Zero(kD);
  for (size_t k = 0; k < size; k += hn::Lanes(kD)) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(kD, terms + k)));
  }
  return hn::GetLane(hn::MaxOfLanes(kD, largest));
}

bool AddAll(const float* terms, size_t size, float scale, float limit, int32_t* digits) {
  if (!(Largest(terms, size) < limit)) return false;
  const auto scales = hn::Set(kD, scale);
  const auto base = hn::Set(kD, float{1 << kDigitBits});
  for (size_t k = 0; k < size; k += hn::Lanes(kD)) {
    auto rest = hn::Mul(hn::LoadU(kD, terms + k), scales);
    for (size_t d = 0; d < kNumDigits; ++d) {
      const auto rounded = hn::Round(rest);
      int32_t* const sums = digits + d * size + k;
      hn::StoreU(hn::Add(hn::LoadU(kI, sums), hn::ConvertTo(kI, rounded)), kI, sums);
      rest = hn::Mul(hn::Sub(rest, rounded), base);
    }
  }
  return true;
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using LargestKernel = float (*)(const float*, size_t);
using DigitsKernel = bool (*)(const float*, size_t, float, float, int32_t*);
constexpr LargestKernel kLargestTable[] = BITPRESS_DISPATCH_TABLE(Largest);
constexpr DigitsKernel kDigitsTable[] = BITPRESS_DISPATCH_TABLE(AddAll);

bool AddDigits(const float* terms, size_t size, int place, int32_t* digits) {
  BITPRESS_DCHECK(size % kDigitStep == 0);
  return kDigitsTable[ChosenTargetIndex()](terms, size, DigitScale(place), DigitLimit(place),
                                           digits);
}

float LargestOf(const float* terms, size_t size) {
  BITPRESS_DCHECK(size % kDigitStep == 0);
  return kLargestTable[ChosenTargetIndex()](terms, size);
}

}  // namespace bitpress::kernels
#endif
