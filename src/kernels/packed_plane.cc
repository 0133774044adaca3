#include "kernels/packed_plane.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace bitpress::kernels {
namespace {

// Eight codes lie in a uint64, a byte each, and become the low kBits bytes of another; whole groups
// of every width.
static_assert(std::endian::native == std::endian::little);
constexpr size_t kStep = 8;

constexpr int SpareBits(int bits) { return 8 % bits; }

constexpr uint64_t Repeat(uint64_t value, int distance) {
  uint64_t repeated = 0;
  for (int shift = 0; shift < 64; shift += distance) repeated |= value << shift;
  return repeated;
}

// Bits of the spare stream that belong to byte j, moved from stream order to their byte and back.
template <int kBits, int kBytes>
inline uint64_t SpreadSpare(uint64_t stream) {
  constexpr int kSpare = SpareBits(kBits);
  constexpr uint64_t kMask = (1u << kSpare) - 1;
  uint64_t bytes = 0;
  for (int j = 0; j < kBytes; ++j) {
    bytes |= (stream & kMask << (kSpare * j)) << (8 * j + 8 - kSpare - kSpare * j);
  }
  return bytes;
}
template <int kBits, int kBytes>
inline uint64_t GatherSpare(uint64_t bytes) {
  constexpr int kSpare = SpareBits(kBits);
  constexpr uint64_t kMask = (1u << kSpare) - 1;
  uint64_t stream = 0;
  for (int j = 0; j < kBytes; ++j) {
    stream |= bytes >> (8 * j + 8 - kSpare - kSpare * j) & kMask << (kSpare * j);
  }
  return stream;
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
    // Two groups of three bytes.
    const uint64_t low = (x & 0xFFFFFF) | SpreadSpare<6, 3>(x >> 24 & 0x3F);
    const uint64_t high = (x >> 32 & 0xFFFFFF) | SpreadSpare<6, 3>(x >> 56);
    return low | high << 24;
  } else if constexpr (kBits == 3) {
    const uint64_t pairs = x | x >> 5;
    const uint64_t low = (pairs & 0x3F) | (pairs >> 8 & 0x3F00) | (pairs >> 16 & 0x3F0000);
    return low | SpreadSpare<3, 3>(pairs >> 48 & 0x3F);
  } else if constexpr (kBits == 5) {
    const uint64_t last = x >> 40;
    const uint64_t stream = (last & 0x1F) | (last >> 3 & 0x3E0) | (last >> 6 & 0x7C00);
    return (x & 0xFFFFFFFFFF) | SpreadSpare<5, 5>(stream);
  } else {
    static_assert(kBits == 7);
    return (x & 0xFFFFFFFFFFFFFF) | SpreadSpare<7, 7>(x >> 56);
  }
}

template <int kBits>
inline uint64_t Unpack8(uint64_t v) {
  if constexpr (kBits == 4) {
    v = (v | v << 16) & Repeat(0xFFFF, 32);
    v = (v | v << 8) & Repeat(0xFF, 16);
    return (v | v << 4) & Repeat(0xF, 8);
  } else if constexpr (kBits == 2) {
    v = (v | v << 24) & Repeat(0xFF, 32);
    v = (v | v << 12) & Repeat(0xF, 16);
    return (v | v << 6) & Repeat(3, 8);
  } else if constexpr (kBits == 1) {
    v = (v | v << 28) & Repeat(0xF, 32);
    v = (v | v << 14) & Repeat(3, 16);
    return (v | v << 7) & Repeat(1, 8);
  } else if constexpr (kBits == 6) {
    const uint64_t low = (v & 0x3F3F3F) | GatherSpare<6, 3>(v) << 24;
    const uint64_t high = (v >> 24 & 0x3F3F3F) | GatherSpare<6, 3>(v >> 24) << 24;
    return low | high << 32;
  } else if constexpr (kBits == 3) {
    const uint64_t pairs =
        (v & 0x3F) | (v & 0x3F00) << 8 | (v & 0x3F0000) << 16 | GatherSpare<3, 3>(v) << 48;
    return (pairs | pairs << 5) & Repeat(7, 8);
  } else if constexpr (kBits == 5) {
    const uint64_t stream = GatherSpare<5, 5>(v);
    const uint64_t last = (stream & 0x1F) | (stream & 0x3E0) << 3 | (stream & 0x7C00) << 6;
    return (v & 0x1F1F1F1F1F) | last << 40;
  } else {
    static_assert(kBits == 7);
    return (v & 0x7F7F7F7F7F7F7F) | GatherSpare<7, 7>(v) << 56;
  }
}

template <int kBits>
void PackAll(std::span<const uint8_t> codes, std::span<uint8_t> packed) {
  const size_t num_whole = codes.size() / kStep;
  const uint8_t* in = codes.data();
  uint8_t* out = packed.data();
  for (size_t i = 0; i < num_whole; ++i, in += kStep, out += kBits) {
    uint64_t eight;
    std::memcpy(&eight, in, kStep);
    const uint64_t bytes = Pack8<kBits>(eight);
    std::memcpy(out, &bytes, kBits);
  }
  if (const size_t rest = codes.size() % kStep; rest > 0) {
    uint64_t eight = 0;
    std::memcpy(&eight, in, rest);
    const uint64_t bytes = Pack8<kBits>(eight);
    std::memcpy(out, &bytes, packed.size() - num_whole * kBits);
  }
}

template <int kBits>
void UnpackAll(std::span<const uint8_t> packed, std::span<uint8_t> codes) {
  const size_t num_whole = codes.size() / kStep;
  const uint8_t* in = packed.data();
  uint8_t* out = codes.data();
  for (size_t i = 0; i < num_whole; ++i, in += kBits, out += kStep) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, in, kBits);
    const uint64_t eight = Unpack8<kBits>(bytes);
    std::memcpy(out, &eight, kStep);
  }
  if (const size_t rest = codes.size() % kStep; rest > 0) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, in, packed.size() - num_whole * kBits);
    const uint64_t eight = Unpack8<kBits>(bytes);
    std::memcpy(out, &eight, rest);
  }
}

constexpr size_t kCodesPerTask = size_t{1} << 16;

size_t RoundUp(size_t count) { return (count + kStep - 1) / kStep * kStep; }

}  // namespace

void PackCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed) {
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
