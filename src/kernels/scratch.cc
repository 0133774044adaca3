#include "kernels/scratch.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace bitpress::kernels {
namespace {

// The blocks that no task uses now. There are never more than tasks ran at a time.
struct FreeBlocks {
  std::mutex mutex;
  std::vector<Scratch::Block> blocks;
};

FreeBlocks& Free() {
  static FreeBlocks free;
  return free;
}

// Larger blocks go back to the system. The address sanitizer gets all back: it would not see what
// is written behind a part of a block.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kMostKept = 0;
#else
constexpr size_t kMostKept = size_t{1} << 22;
#endif

}  // namespace

Scratch::Scratch(size_t size) {
  {
    FreeBlocks& free = Free();
    const std::lock_guard lock(free.mutex);
    if (!free.blocks.empty()) {
      block_ = std::move(free.blocks.back());
      free.blocks.pop_back();
    }
  }
  if (block_.size >= size) return;
  block_ = {};
  block_.bytes.reset(new (std::align_val_t{Delete::kAlignment}) std::byte[size]);
  block_.size = size;
}

Scratch::~Scratch() {
  if (block_.bytes == nullptr || block_.size > kMostKept) return;
  FreeBlocks& free = Free();
  const std::lock_guard lock(free.mutex);
  free.blocks.push_back(std::move(block_));
}

}  // namespace bitpress::kernels
