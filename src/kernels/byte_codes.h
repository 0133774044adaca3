// How products of bytes see the codes of elements. Internal to the kernels of products and
// convolutions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitpress::kernels {

// Codes of bytes are signed on Arm, whose dot products take two signed bytes. Those of x86 take an
// unsigned and a signed one.
#ifdef __aarch64__
inline constexpr bool kAreCodesSigned = true;
#else
inline constexpr bool kAreCodesSigned = false;
#endif

// The codes of elements in [least, largest]: elements plus `offset`, with the largest magnitude
// `largest`. Signed bytes have an offset, too, if there is room for it: what they hold in fewer
// bits is unsigned.
struct ByteCodes {
  int offset = 0;
  int largest = 0;
};
inline ByteCodes ByteCodesOf(int least, int largest) {
  const bool has_room = !kAreCodesSigned || largest - least <= INT8_MAX;
  return has_room ? ByteCodes{-least, largest - least} : ByteCodes{0, -least};
}

// Returns the code that a byte holds.
inline int CodeOfByte(uint8_t byte) {
  return kAreCodesSigned ? int{static_cast<int8_t>(byte)} : int{byte};
}

// Returns how many products of codes with factors, whose magnitudes are at most these, may be added
// to each half of a pair whose sum has 16 bits.
inline size_t StepsInWords(int largest_code, int largest_factor) {
  const int most = 2 * largest_code * largest_factor;
  return most > 0 ? static_cast<size_t>(INT16_MAX / most) : 0;
}

}  // namespace bitpress::kernels
