// The inner loops of packing and unpacking, plain so that the compiler vectorizes them. Internal to
// kernels/pack_tensor.h.
//
// Every loop multiplies each element by a power of two, its inverse factor, which gives value /
// scale as a multiple of the element's unit. Powers of two are exchanged as float32 bits, in which
// multiplying is adding exponents. Results are compared as bits. So a value that a
// denormals-are-zero mode loses is found to be inexact and not taken for zero, and the caller asks
// the reference.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/float_bits.h"
#include "formats/format_spec.h"

namespace bitpress::kernels {

inline constexpr uint32_t kSignBit = formats::kFloatSignBit;
inline constexpr int kExponentShift = formats::kFloatMantissaBits;
inline constexpr uint32_t kOneBits = 127u << kExponentShift;  // 1.0f

// Returns the inverse of a power of two, both as bits.
constexpr uint32_t InverseOf(uint32_t power) { return 2 * kOneBits - power; }

enum class ElementKind { kFloat, kBFloat16, kSignMagnitude, kTwosComplement };

// The numbers of an element type that the loops need.
struct ElementParams {
  ElementKind kind = ElementKind::kFloat;
  int bits = 0;
  int low_bits = 0;       // bits of a code that go to the second plane
  uint32_t max_bits = 0;  // bits of the largest value at exponent 0
  // Integers: minus the fraction bits, so that the factor gives whole numbers.
  int unit_exponent = 0;
  // Floating-point elements:
  int mantissa_shift = 0;      // shift from float32's mantissa to the element's
  uint32_t normal_offset = 0;  // difference of the biases, at the element's exponent
  uint32_t least_normal = 0;   // bits of the smallest normal value
  uint32_t magic_bits = 0;     // float32 whose unit in the last place is the smallest subnormal
  uint32_t kept_mantissa = 0;

  explicit ElementParams(const formats::FormatSpec& spec);
};

// --- Encoding. Each loop returns 0 if all codes are exact. ---

template <bool kLimited, typename Code>
uint32_t EncodeFloats(const ElementParams& p, const float* __restrict y,
                      const uint32_t* __restrict inverse, Code* __restrict codes, size_t count) {
  const float magic = std::bit_cast<float>(p.magic_bits);
  const int32_t magic_bits = static_cast<int32_t>(p.magic_bits);
  const int32_t normal_offset = static_cast<int32_t>(p.normal_offset);
  const int32_t least_normal = static_cast<int32_t>(p.least_normal);
  const int32_t kept = static_cast<int32_t>(p.kept_mantissa);
  const int32_t limit = static_cast<int32_t>(p.max_bits);
  const int mantissa_shift = p.mantissa_shift, sign_shift = 32 - p.bits;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(y[i]);
    const uint32_t sign = bits & kSignBit;
    const int32_t magnitude = static_cast<int32_t>(bits ^ sign);
    const float factor = std::bit_cast<float>(inverse[i]);
    const float scale = std::bit_cast<float>(InverseOf(inverse[i]));
    const float element = std::bit_cast<float>(magnitude) * factor;
    const int32_t element_bits = std::bit_cast<int32_t>(element);
    const int32_t normal = (element_bits >> mantissa_shift) - normal_offset;
    // The sum's unit is that of subnormal elements, so its low bits are their code.
    const float sum = element + magic;
    const int32_t subnormal = std::bit_cast<int32_t>(sum) - magic_bits;
    const int32_t rounded = std::bit_cast<int32_t>((sum - magic) * scale);
    // Compilers would turn conditions into jumps here, and few are foreseeable. Masks have none.
    const int32_t is_subnormal = -static_cast<int32_t>(element_bits < least_normal);
    const int32_t code = normal ^ ((normal ^ subnormal) & is_subnormal);
    const int32_t kept_part = magnitude & kept;
    const int32_t decoded = kept_part ^ ((kept_part ^ rounded) & is_subnormal);
    bad |= static_cast<uint32_t>(decoded ^ magnitude);
    if constexpr (kLimited) bad |= static_cast<uint32_t>(magnitude > limit);
    codes[i] = static_cast<Code>(static_cast<uint32_t>(code) | sign >> sign_shift);
  }
  return bad;
}

// REQUIRES: no value is beyond the largest code.
inline uint32_t EncodeSignMagnitude(const ElementParams& p, const float* __restrict y,
                                    const uint32_t* __restrict inverse, uint8_t* __restrict codes,
                                    size_t count) {
  const int sign_shift = 32 - p.bits;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(y[i]);
    const uint32_t sign = bits & kSignBit;
    const uint32_t magnitude = bits ^ sign;
    const float scale = std::bit_cast<float>(InverseOf(inverse[i]));
    const int32_t steps =
        static_cast<int32_t>(std::bit_cast<float>(magnitude) * std::bit_cast<float>(inverse[i]));
    BITPRESS_DCHECK(steps >= 0 && steps < 1 << (p.bits - 1));
    bad |= std::bit_cast<uint32_t>(static_cast<float>(steps) * scale) ^ magnitude;
    codes[i] = static_cast<uint8_t>(static_cast<uint32_t>(steps) | sign >> sign_shift);
  }
  return bad;
}

inline uint32_t EncodeTwoPlanes(const ElementParams& p, const float* __restrict y,
                                const uint32_t* __restrict inverse, uint8_t* __restrict codes,
                                uint8_t* __restrict low_codes, size_t count) {
  const int sign_shift = 32 - p.bits, low_bits = p.low_bits;
  const uint32_t low_mask = (1u << low_bits) - 1;
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(y[i]);
    const uint32_t sign = bits & kSignBit;
    const uint32_t magnitude = bits ^ sign;
    const float scale = std::bit_cast<float>(InverseOf(inverse[i]));
    const int32_t steps =
        static_cast<int32_t>(std::bit_cast<float>(magnitude) * std::bit_cast<float>(inverse[i]));
    bad |= std::bit_cast<uint32_t>(static_cast<float>(steps) * scale) ^ magnitude;
    const uint32_t code = static_cast<uint32_t>(steps) | sign >> sign_shift;
    codes[i] = static_cast<uint8_t>(code >> low_bits);
    low_codes[i] = static_cast<uint8_t>(code & low_mask);
  }
  return bad;
}

inline uint32_t EncodeTwosComplement(const float* __restrict y, const uint32_t* __restrict inverse,
                                     uint8_t* __restrict codes, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const float scale = std::bit_cast<float>(InverseOf(inverse[i]));
    const int32_t steps = static_cast<int32_t>(y[i] * std::bit_cast<float>(inverse[i]));
    // -0 has no code and differs from +0 here.
    bad |=
        std::bit_cast<uint32_t>(static_cast<float>(steps) * scale) ^ std::bit_cast<uint32_t>(y[i]);
    codes[i] = static_cast<uint8_t>(steps);
  }
  return bad;
}

inline uint32_t EncodeBFloat16(const float* __restrict y, uint16_t* __restrict codes,
                               size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(y[i]);
    bad |= bits & 0xFFFFu;
    // The exponent of infinity and NaN, all ones, carries into the sign's place.
    bad |= ((bits & ~kSignBit) + (1u << kExponentShift)) & kSignBit;
    codes[i] = static_cast<uint16_t>(bits >> 16);
  }
  return bad;
}

// --- Decoding ---

inline void DecodeTable(const float* __restrict table, const uint8_t* __restrict codes,
                        const float* __restrict factor, float* __restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = table[codes[i]] * factor[i];
}

inline void DecodeTwoPlanes(int low_bits, const uint8_t* __restrict codes,
                            const uint8_t* __restrict low_codes, const float* __restrict factor,
                            float* __restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int32_t magnitude = (codes[i] & 0x7F) << low_bits | low_codes[i];
    const uint32_t sign = static_cast<uint32_t>(codes[i] & 0x80) << 24;
    const float value = static_cast<float>(magnitude) * factor[i];
    y[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
}

}  // namespace bitpress::kernels
