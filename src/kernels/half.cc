#include "kernels/half.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "formats/float_bits.h"

namespace bitpress::kernels {
namespace {

using formats::FloatBits;
using formats::FloatFromBits;

float Widen(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  const uint32_t exponent = magnitude >> 10;
  if (exponent == 31)
    return FloatFromBits(sign | formats::kFloatExponentMask | (magnitude & 0x3FFu) << 13);
  if (exponent != 0) return FloatFromBits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  if (magnitude == 0) return FloatFromBits(sign);
  // A subnormal half is a normal float. Its leading one moves to the implicit place.
  const uint32_t leading = 31u - static_cast<uint32_t>(std::countl_zero(magnitude));
  return FloatFromBits(sign | ((leading + 127u - 24u) << 23) |
                       ((magnitude << (23u - leading)) & formats::kFloatMantissaMask));
}

uint16_t Narrow(float x) {
  const uint32_t sign = FloatBits(x) >> 16 & 0x8000u;
  const uint32_t magnitude = FloatBits(x) & ~formats::kFloatSignBit;
  if (magnitude > formats::kFloatExponentMask)
    return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu));
  if (magnitude >= 143u << 23) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and more
  // The float's 24 significant bits are shifted down to the half's step: 13 places for normal
  // halves, more below 2^-14.
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102)
    return static_cast<uint16_t>(sign);  // below 2^-25: nearer to zero than to the smallest half
  const uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;
  const uint32_t significand = (magnitude & formats::kFloatMantissaMask) | 1u << 23;
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1);
  const uint32_t half_step = 1u << (shift - 1);
  const uint32_t rounded = kept + (rest > half_step || (rest == half_step && (kept & 1u)) ? 1 : 0);
  // `kept` holds the implicit one for normal halves. Added to the exponent field below it lets a
  // carry through, up to infinity.
  const uint32_t field = exponent >= 113 ? (exponent - 113) << 10 : 0;
  return static_cast<uint16_t>(sign | (field + rounded));
}

}  // namespace

void HalfToFloat(std::span<const uint16_t> x, float* y) {
  std::transform(x.begin(), x.end(), y, Widen);
}
void FloatToHalf(std::span<const float> x, uint16_t* y) {
  std::transform(x.begin(), x.end(), y, Narrow);
}

}  // namespace bitpress::kernels
