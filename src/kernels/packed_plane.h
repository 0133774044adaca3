// Planes of packed codes (formats/pack.h), written and read in batches that have a byte a code.
// Batches may end inside a group of codes. Internal to kernels/pack_tensor.h. A plane belongs to
// one thread, which lends it the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace bitpress::kernels {

// Pack and unpack eight codes at a time, equal to formats::PackCodes and UnpackCodes. Codes must
// not have more than `bits` bits. REQUIRES: 1 <= bits <= 8, `packed` has
// formats::PackedBytes(codes.size(), bits) bytes; for unpacking it may have more.
void PackCodes(std::span<const uint8_t> codes, int bits, std::span<uint8_t> packed);
void UnpackCodes(std::span<const uint8_t> packed, int bits, std::span<uint8_t> codes);

class PlaneWriter {
 public:
  // Codes of 8 or 16 bits are bytes or pairs of them, and nothing is packed. 0 bits mean that there
  // is no such plane: all calls do nothing.
  PlaneWriter(int bits, std::span<uint8_t> out) : bits_(bits), out_(out) {}

  // Returns room for the next `count` codes, which the caller fills before Finish.
  uint8_t* Begin(size_t count);
  // Packs the codes, but for those of a group that the next batch completes.
  void Finish(bool is_last, ThreadPool& pool);

 private:
  int bits_;
  std::span<uint8_t> out_;
  std::vector<uint8_t> buffer_;
  size_t done_ = 0;     // codes packed, whole groups of eight; all codes if nothing is packed
  size_t pending_ = 0;  // codes in the buffer
};

class PlaneReader {
 public:
  PlaneReader(int bits, std::span<const uint8_t> in) : bits_(bits), in_(in) {}

  // Returns codes first to first + count - 1, which are valid until the next call.
  const uint8_t* Read(size_t first, size_t count, ThreadPool& pool);

 private:
  int bits_;
  std::span<const uint8_t> in_;
  std::vector<uint8_t> buffer_;
};

}  // namespace bitpress::kernels
