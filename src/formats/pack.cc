#include "formats/pack.h"

#include <algorithm>

namespace bitpress::formats {

size_t PackedBytes(size_t count, int bits) {
  const size_t width = static_cast<size_t>(bits);
  // count / 8 groups of eight codes take whole bytes, so nothing overflows before the result would.
  return count / 8 * width + (count % 8 * width + 7) / 8;
}

void PackCodes(std::span<const uint32_t> codes, int bits, std::span<uint8_t> packed) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t pending = 0;
  int num_pending = 0;
  size_t out = 0;
  for (const uint32_t code : codes) {
    pending |= (code & mask) << num_pending;
    num_pending += bits;
    for (; num_pending >= 8; num_pending -= 8, pending >>= 8)
      packed[out++] = static_cast<uint8_t>(pending);
  }
  if (num_pending > 0) packed[out] = static_cast<uint8_t>(pending);
}

void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint32_t> codes) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t pending = 0;
  int num_pending = 0;
  size_t in = 0;
  for (uint32_t& code : codes) {
    for (; num_pending < bits; num_pending += 8)
      pending |= static_cast<uint64_t>(packed[in++]) << num_pending;
    code = static_cast<uint32_t>(pending & mask);
    pending >>= bits;
    num_pending -= bits;
  }
}

}  // namespace bitpress::formats
