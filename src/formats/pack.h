// Sub-byte codes in memory: element i takes bits [i * bits, (i + 1) * bits) of a little-endian bit
// stream. For 4 bits that is ONNX's two to a byte, first element in the low nibble; for 6 bits four
// elements in three bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bitpress::formats {

// Bytes that `count` codes of `bits` bits take. REQUIRES: 1 <= bits <= 32.
size_t PackedBytes(size_t count, int bits);

// The low `bits` bits of each code; unused bits of the last byte are zero. REQUIRES: packed.size()
// == PackedBytes(...).
void PackCodes(std::span<const uint32_t> codes, int bits, std::span<uint8_t> packed);
void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint32_t> codes);

}  // namespace bitpress::formats
