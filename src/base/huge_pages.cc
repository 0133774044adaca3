#include "base/huge_pages.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <new>

#include "base/round_up.h"
#include "base/system_pages.h"

namespace bitpress {
namespace {

constexpr size_t kLine = 64, kPage = kHugePage, kChunk = size_t{32} << 20;

// Chunks, in each of which arrays lie one behind the other. Room is not used again before all
// arrays of a chunk are gone: weights come and go with their session.
class Chunks {
 public:
  void* Allocate(size_t size) {
    if (size > std::numeric_limits<size_t>::max() - 2 * kPage) throw std::bad_alloc();
    size = RoundUp(std::max<size_t>(size, 1), kLine);
    const std::lock_guard lock(mutex_);
    if (size > kChunk / 2) return Add(RoundUp(size, kPage), size, 1)->first;
    if (open_ == chunks_.end() || open_->second.size - open_->second.used < size) {
      open_ = Add(kChunk, 0, 0);
    }
    Chunk& chunk = open_->second;
    std::byte* const memory = open_->first + chunk.used;
    chunk.used += size;
    ++chunk.num_arrays;
    return memory;
  }

  void Free(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = std::prev(chunks_.upper_bound(static_cast<std::byte*>(memory)));
    if (--found->second.num_arrays > 0) return;
    UnmapPages(found->first, found->second.size);
    if (open_ == found) open_ = chunks_.end();
    chunks_.erase(found);
  }

 private:
  struct Chunk {
    size_t size, used, num_arrays;
  };
  using Place = std::map<std::byte*, Chunk>::iterator;

  Place Add(size_t size, size_t used, size_t num_arrays) {
    return chunks_.emplace(MapHugePages(size), Chunk{size, used, num_arrays}).first;
  }

  std::mutex mutex_;
  std::map<std::byte*, Chunk> chunks_;  // by their beginnings
  Place open_ = chunks_.end();          // the chunk that has room
};

[[maybe_unused]] Chunks& TheChunks() {
  static auto& chunks = *new Chunks;  // outlives all arrays
  return chunks;
}

}  // namespace

// AddressSanitizer sees what is read behind an array only if the array is of the heap.
#ifdef __SANITIZE_ADDRESS__

void* AllocateInHugePages(size_t size) { return ::operator new (size, std::align_val_t{kLine}); }

void FreeInHugePages(void* memory) noexcept { ::operator delete (memory, std::align_val_t{kLine}); }

#else

void* AllocateInHugePages(size_t size) { return TheChunks().Allocate(size); }

void FreeInHugePages(void* memory) noexcept {
  if (memory != nullptr) TheChunks().Free(memory);
}

#endif

}  // namespace bitpress
