#include "kernels/packed_plane.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "formats/pack.h"

namespace bitpress::kernels {
namespace {

// Eight codes, a byte each in a uint64, become the low kBits bytes of another. Eight are whole
// groups for every width.
static_assert(std::endian::native == std::endian::little);
constexpr size_t kStep = 8;

constexpr uint64_t Repeat(uint64_t value, int distance) {
  uint64_t repeated = 0;
  for (int shift = 0; shift < 64; shift += distance) repeated |= value << shift;
  return repeated;
}

template <int kBits>
inline uint64_t Pack8(uint64_t x) {
  if constexpr (kBits == 4) {
    x = (x | x >> 4) & Repeat(0xFF, 16);
    x = (x | x >> 8) & Repeat(0xFFFF, 32);
    return (x | x >> 16) & 0xFFFFFFFF;
  } else if constexpr (kBits == 2) {
    x = (x | x >> 6) & Repeat(0xF, 16);
    x = (x | x >> 12) & Repeat(0xFF, 32);
    return (x | x >> 24) & 0xFFFF;
  } else if constexpr (kBits == 1) {
    x = (x | x >> 7) & Repeat(3, 16);
    x = (x | x >> 14) & Repeat(0xF, 32);
    return (x | x >> 28) & 0xFF;
  } else if constexpr (kBits == 6) {
    // There are two groups of three bytes, 32 bits apart. The fourth code of each goes to the top
    // two bits of its bytes.
    const uint64_t last = x >> 24 & Repeat(0x3F, 32);
    const uint64_t spare = (last & Repeat(0x03, 32)) << 6 | (last & Repeat(0x0C, 32)) << 12 |
                           (last & Repeat(0x30, 32)) << 18;
    x = (x & Repeat(0xFFFFFF, 32)) | spare;
    return (x & 0xFFFFFF) | (x >> 8 & 0xFFFFFF000000);
  } else if constexpr (kBits == 3) {
    const uint64_t pairs = x | x >> 5;
    const uint64_t last = pairs >> 48 & 0x3F;
    return (pairs & 0x3F) | (pairs >> 8 & 0x3F00) | (pairs >> 16 & 0x3F0000) | (last & 0x03) << 6 |
           (last & 0x0C) << 12 | (last & 0x30) << 18;
  } else if constexpr (kBits == 5) {
    // Codes 5 to 7 become a stream of 15 bits, of which each byte takes three.
    uint64_t spare = x >> 40;
    spare = (spare & 0x1F) | (spare >> 3 & 0x3E0) | (spare >> 6 & 0x7C00);
    spare = (spare & 0xFFF) | (spare & 0x7000) << 20;
    spare = (spare | spare << 10) & 0x7003F003F;
    spare = (spare | spare << 5) & 0x707070707;
    return (x & 0xFFFFFFFFFF) | spare << 5;
  } else {
    static_assert(kBits == 7);
    // Bit j of the last code goes to byte j. The product has it at bit 7 * k + j for every k, and
    // the one for k = j is kept.
    const uint64_t last = x >> 56;
    const uint64_t spare = last * 0x40810204081 & Repeat(1, 8);
    return (x & 0xFFFFFFFFFFFFFF) | spare << 7;
  }
}

// Returns the eight codes of the low kBits bytes. The bits behind them do not matter.
template <int kBits>
inline uint64_t Unpack8(uint64_t v) {
  if constexpr (kBits == 4) {
    v = (v & 0xFFFF) | (v & 0xFFFF0000) << 16;
    v = (v | v << 8) & Repeat(0xFF, 16);
    return (v | v << 4) & Repeat(0xF, 8);
  } else if constexpr (kBits == 2) {
    v = (v & 0xFF) | (v & 0xFF00) << 24;
    v = (v | v << 12) & Repeat(0xF, 16);
    return (v | v << 6) & Repeat(3, 8);
  } else if constexpr (kBits == 1) {
    v = (v & 0xF) | (v & 0xF0) << 28;
    v = (v | v << 14) & Repeat(3, 16);
    return (v | v << 7) & Repeat(1, 8);
  } else if constexpr (kBits == 6) {
    v = (v & 0xFFFFFF) | (v & 0xFFFFFF000000) << 8;
    const uint64_t spare = v >> 6 & Repeat(0x030303, 32);
    const uint64_t last = (spare | spare >> 6 | spare >> 12) & Repeat(0x3F, 32);
    return (v & Repeat(0x3F3F3F, 32)) | last << 24;
  } else if constexpr (kBits == 3) {
    const uint64_t spare = v >> 6 & 0x030303;
    const uint64_t last = (spare | spare >> 6 | spare >> 12) & 0x3F;
    const uint64_t pairs = (v & 0x3F) | (v & 0x3F00) << 8 | (v & 0x3F0000) << 16 | last << 48;
    return (pairs | pairs << 5) & Repeat(7, 8);
  } else if constexpr (kBits == 5) {
    uint64_t spare = v >> 5 & 0x707070707;
    spare = (spare | spare >> 5) & 0x7003F003F;
    spare = (spare | spare >> 10) & 0x700000FFF;
    spare = spare | spare >> 20;
    const uint64_t last = (spare & 0x1F) | (spare & 0x3E0) << 3 | (spare & 0x7C00) << 6;
    return (v & 0x1F1F1F1F1F) | last << 40;
  } else {
    static_assert(kBits == 7);
    // The product has bit 8 * j at bit 42 + j, among others elsewhere.
    const uint64_t spare = v >> 7 & 0x01010101010101;
    const uint64_t last = spare * 0x40810204081 >> 42 & 0x7F;
    return (v & 0x7F7F7F7F7F7F7F) | last << 56;
  }
}

// Packs all codes. Groups at the end of memory go through a copy of just their bytes. The others
// are loaded and stored as eight bytes, and the next group overwrites the bytes that are too many.
template <int kBits>
void PackAll(std::span<const uint8_t> codes, std::span<uint8_t> packed) {
  const uint8_t* in = codes.data();
  uint8_t* out = packed.data();
  size_t in_left = codes.size(), out_left = packed.size();
  for (; in_left >= kStep && out_left >= kStep; in_left -= kStep, out_left -= kBits) {
    uint64_t eight;
    std::memcpy(&eight, in, kStep);
    const uint64_t bytes = Pack8<kBits>(eight);
    std::memcpy(out, &bytes, kStep);
    in += kStep;
    out += kBits;
  }
  while (in_left > 0) {
    const size_t num_codes = std::min(in_left, kStep);
    const size_t num_bytes = std::min<size_t>(out_left, kBits);
    uint64_t eight = 0;
    std::memcpy(&eight, in, num_codes);
    const uint64_t bytes = Pack8<kBits>(eight);
    std::memcpy(out, &bytes, num_bytes);
    in += num_codes;
    out += num_bytes;
    in_left -= num_codes;
    out_left -= num_bytes;
  }
}

template <int kBits>
void UnpackAll(std::span<const uint8_t> packed, std::span<uint8_t> codes) {
  const uint8_t* in = packed.data();
  uint8_t* out = codes.data();
  size_t in_left = packed.size(), out_left = codes.size();
  for (; in_left >= kStep && out_left >= kStep; in_left -= kBits, out_left -= kStep) {
    uint64_t bytes;
    std::memcpy(&bytes, in, kStep);
    const uint64_t eight = Unpack8<kBits>(bytes);
    std::memcpy(out, &eight, kStep);
    in += kBits;
    out += kStep;
  }
  while (out_left > 0) {
    const size_t num_codes = std::min(out_left, kStep);
    const size_t num_bytes = std::min<size_t>(in_left, kBits);
    uint64_t bytes = 0;
    std::memcpy(&bytes, in, num_bytes);
    const uint64_t eight = Unpack8<kBits>(bytes);
    std::memcpy(out, &eight, num_codes);
    in += num_bytes;
    out += num_codes;
    in_left -= num_bytes;
    out_left -= num_codes;
  }
}

constexpr size_t kCodesPerTask = size_t{1} << 16;

size_t RoundUp(size_t count) { return (count + kStep - 1) / kStep * kStep; }

}  // namespace

void PackCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed) {
  BITPRESS_DCHECK(bits >= 1 && bits <= 8);
  BITPRESS_DCHECK(packed.size() == formats::PackedBytes(codes.size(), bits));
  switch (bits) {
    case 1:
      return PackAll<1>(codes, packed);
    case 2:
      return PackAll<2>(codes, packed);
    case 3:
      return PackAll<3>(codes, packed);
    case 4:
      return PackAll<4>(codes, packed);
    case 5:
      return PackAll<5>(codes, packed);
    case 6:
      return PackAll<6>(codes, packed);
    case 7:
      return PackAll<7>(codes, packed);
    default:
      std::copy(codes.begin(), codes.end(), packed.begin());
  }
}

void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes) {
  BITPRESS_DCHECK(bits >= 1 && bits <= 8);
  BITPRESS_DCHECK(packed.size() >= formats::PackedBytes(codes.size(), bits));
  switch (bits) {
    case 1:
      return UnpackAll<1>(packed, codes);
    case 2:
      return UnpackAll<2>(packed, codes);
    case 3:
      return UnpackAll<3>(packed, codes);
    case 4:
      return UnpackAll<4>(packed, codes);
    case 5:
      return UnpackAll<5>(packed, codes);
    case 6:
      return UnpackAll<6>(packed, codes);
    case 7:
      return UnpackAll<7>(packed, codes);
    default:
      std::copy_n(packed.begin(), codes.size(), codes.begin());
  }
}

uint8_t* PlaneWriter::Begin(size_t count) {
  if (bits_ == 0) return nullptr;
  if (bits_ >= 8) {
    uint8_t* const begin = out_.data() + done_ * static_cast<size_t>(bits_ / 8);
    done_ += count;
    return begin;
  }
  const size_t kept = pending_;
  pending_ += count;
  if (buffer_.size() < pending_) buffer_.resize(pending_);
  return buffer_.data() + kept;
}

void PlaneWriter::Finish(bool is_last, ThreadPool& pool) {
  if (bits_ == 0 || bits_ >= 8) return;
  const size_t count = is_last ? pending_ : pending_ / kStep * kStep;
  const size_t width = static_cast<size_t>(bits_);
  const std::span<uint8_t> out = out_.subspan(done_ / kStep * width);
  pool.ParallelFor((count + kCodesPerTask - 1) / kCodesPerTask, [&](size_t task) {
    const size_t begin = task * kCodesPerTask;
    const size_t size = std::min(kCodesPerTask, count - begin);
    const size_t first_byte = begin / kStep * width;
    const size_t num_bytes = std::min(RoundUp(size) / kStep * width, out.size() - first_byte);
    PackCodes({buffer_.data() + begin, size}, bits_, out.subspan(first_byte, num_bytes));
  });
  done_ += count;
  pending_ -= count;
  if (pending_ > 0) std::memmove(buffer_.data(), buffer_.data() + count, pending_);
}

const uint8_t* PlaneReader::Read(size_t first, size_t count, ThreadPool& pool) {
  if (bits_ == 0) return nullptr;
  if (bits_ >= 8) return in_.data() + first * static_cast<size_t>(bits_ / 8);
  const size_t start = first / kStep * kStep;
  const size_t total = first - start + count;
  if (buffer_.size() < total) buffer_.resize(total);
  const size_t width = static_cast<size_t>(bits_);
  const std::span<const uint8_t> in = in_.subspan(start / kStep * width);
  pool.ParallelFor((total + kCodesPerTask - 1) / kCodesPerTask, [&](size_t task) {
    const size_t begin = task * kCodesPerTask;
    const size_t size = std::min(kCodesPerTask, total - begin);
    const size_t first_byte = begin / kStep * width;
    const size_t num_bytes = std::min(RoundUp(size) / kStep * width, in.size() - first_byte);
    UnpackCodes(in.subspan(first_byte, num_bytes), bits_, {buffer_.data() + begin, size});
  });
  return buffer_.data() + (first - start);
}

}  // namespace bitpress::kernels
