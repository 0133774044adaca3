// Sub-byte codes in memory, as stored weights have them: laid out so that bytes can be decoded on
// their own by table lookup.
//
// Codes of w bits come in groups: with g = gcd(w, 8), n = w / g bytes hold 8 / g codes. Each byte
// holds d = floor(8 / w) codes in its low d * w bits, the first in the lowest; byte j of the group
// holds codes j * d to j * d + d - 1. The spare high bits of the n bytes, taken as a little-endian
// stream with byte 0's lowest, hold the codes that are left, in order. So 4-bit codes lie two to a
// byte with the first in the low nibble, as in ONNX; of four 6-bit codes three fill the low bits of
// three bytes and the fourth comes from the top two bits of each; 1, 2 and 8 bits are plain.
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace bitpress::formats {

// A group of codes: the smallest number of them that fills whole bytes.
struct PackGroup {
  size_t num_codes = 0;       // codes in a group
  size_t num_bytes = 0;       // bytes of a group
  size_t codes_per_byte = 0;  // codes that lie within one byte
  int spare_bits = 0;         // high bits of each byte, for the codes that lie in several bytes
};
// Returns the group of codes of so many bits. REQUIRES: 1 <= bits <= 8.
PackGroup PackGroupOf(int bits);

// Returns the bytes of the whole groups that `count` codes take. REQUIRES: 1 <= bits <= 8.
size_t PackedBytes(size_t count, int bits);

// Packs the low `bits` bits of each code, and unpacks them again. Zero codes fill up the last
// group. REQUIRES: packed.size() == PackedBytes(codes.size(), bits). The two do not overlap.
void PackCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed);
void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes);

// Returns the code of this index, as UnpackCodes gives it. REQUIRES: `packed` holds its group.
uint8_t CodeAt(std::span<const uint8_t> packed, int bits, size_t index);

}  // namespace bitpress::formats
