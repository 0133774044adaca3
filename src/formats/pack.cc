#include "formats/pack.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace bitpress::formats {
namespace {

// Calls function(code, byte, byte_shift, code_shift, bits) for every piece of a code that lies in
// one byte of a group. The `bits` bits from bit `code_shift` of code number `code` on are those
// from bit `byte_shift` of byte number `byte` on.
template <class Function>
void ForEachPiece(int width, Function&& function) {
  const PackGroup group = PackGroupOf(width);
  const size_t num_whole = group.num_bytes * group.codes_per_byte;
  for (size_t code = 0; code < num_whole; ++code) {
    const int shift = static_cast<int>(code % group.codes_per_byte) * width;
    function(code, code / group.codes_per_byte, shift, 0, width);
  }
  const int first_spare = 8 - group.spare_bits;
  size_t byte = 0;
  int used = 0;  // spare bits of that byte
  for (size_t code = num_whole; code < group.num_codes; ++code) {
    for (int done = 0; done < width;) {
      const int bits = std::min(width - done, group.spare_bits - used);
      function(code, byte, first_spare + used, done, bits);
      done += bits;
      used += bits;
      if (used == group.spare_bits) {
        ++byte;
        used = 0;
      }
    }
  }
}

// Packs codes none of which lies in several bytes.
void PackWholeCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed) {
  const size_t per_byte = PackGroupOf(bits).codes_per_byte;
  const unsigned mask = (1u << bits) - 1;
  for (size_t byte = 0; byte < packed.size(); ++byte) {
    const size_t first = byte * per_byte;
    const size_t count = std::min(per_byte, codes.size() - first);
    unsigned value = 0;
    for (size_t i = 0; i < count; ++i)
      value |= (codes[first + i] & mask) << (i * static_cast<size_t>(bits));
    packed[byte] = static_cast<uint8_t>(value);
  }
}

}  // namespace

PackGroup PackGroupOf(int bits) {
  BITPRESS_DCHECK(bits >= 1 && bits <= 8);
  const int common = std::gcd(bits, 8);
  const int codes_per_byte = 8 / bits;
  return {static_cast<size_t>(8 / common), static_cast<size_t>(bits / common),
          static_cast<size_t>(codes_per_byte), 8 - codes_per_byte * bits};
}

size_t PackedBytes(size_t count, int bits) {
  const PackGroup group = PackGroupOf(bits);
  // count + num_codes - 1 could overflow.
  const size_t num_groups = count / group.num_codes + (count % group.num_codes != 0 ? 1 : 0);
  return num_groups * group.num_bytes;
}

void PackCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed) {
  BITPRESS_DCHECK(packed.size() == PackedBytes(codes.size(), bits));
  const PackGroup group = PackGroupOf(bits);
  if (group.spare_bits == 0) return PackWholeCodes(codes, bits, packed);
  std::fill(packed.begin(), packed.end(), uint8_t{0});
  for (size_t first = 0; first < codes.size(); first += group.num_codes) {
    const size_t out = first / group.num_codes * group.num_bytes;
    ForEachPiece(bits, [&](size_t code, size_t byte, int byte_shift, int code_shift, int size) {
      if (first + code >= codes.size()) return;
      const unsigned piece =
          (static_cast<unsigned>(codes[first + code]) >> code_shift) & ((1u << size) - 1);
      packed[out + byte] = static_cast<uint8_t>(packed[out + byte] | piece << byte_shift);
    });
  }
}

void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes) {
  BITPRESS_DCHECK(packed.size() == PackedBytes(codes.size(), bits));
  const PackGroup group = PackGroupOf(bits);
  std::fill(codes.begin(), codes.end(), uint8_t{0});
  for (size_t first = 0; first < codes.size(); first += group.num_codes) {
    const size_t in = first / group.num_codes * group.num_bytes;
    ForEachPiece(bits, [&](size_t code, size_t byte, int byte_shift, int code_shift, int size) {
      if (first + code >= codes.size()) return;
      const unsigned piece =
          (static_cast<unsigned>(packed[in + byte]) >> byte_shift) & ((1u << size) - 1);
      codes[first + code] = static_cast<uint8_t>(codes[first + code] | piece << code_shift);
    });
  }
}

uint8_t CodeAt(std::span<const uint8_t> packed, int bits, size_t index) {
  if (8 % bits == 0) {  // no code lies in several bytes
    const size_t bit = index * static_cast<size_t>(bits);
    return static_cast<uint8_t>(packed[bit / 8] >> bit % 8 & ((1 << bits) - 1));
  }
  const PackGroup group = PackGroupOf(bits);
  const size_t first = index / group.num_codes * group.num_bytes;
  const size_t code = index % group.num_codes;
  BITPRESS_DCHECK(first + group.num_bytes <= packed.size());
  const size_t byte = code / group.codes_per_byte;
  if (byte < group.num_bytes) {
    const size_t shift = code % group.codes_per_byte * static_cast<size_t>(bits);
    return static_cast<uint8_t>(packed[first + byte] >> shift & ((1 << bits) - 1));
  }
  const auto spare_bits = static_cast<size_t>(group.spare_bits);
  size_t at = (code - group.num_bytes * group.codes_per_byte) * static_cast<size_t>(bits);
  unsigned found = 0;
  for (int bit = 0; bit < bits; ++bit, ++at) {
    const auto byte_with_spare = static_cast<unsigned>(packed[first + at / spare_bits]);
    const unsigned spare = byte_with_spare >> (8 - spare_bits + at % spare_bits);
    found |= (spare & 1) << bit;
  }
  return static_cast<uint8_t>(found);
}

}  // namespace bitpress::formats
