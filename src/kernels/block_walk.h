// The order in which packing walks over a tensor. Blocks are numbered in row-major order of [outer,
// block]. The `inner` blocks of one number lie side by side in one piece of memory, and so do their
// scales and shifts. Batches of such pieces go through buffers, and tasks are parts of a batch.
// Internal to kernels/pack_tensor.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::kernels {

struct BlockWalk {
  size_t axis = 0, inner = 1;
  size_t block = 0;            // elements along the axis
  size_t sub_block = 0;        // elements that share a shift; 0: none do
  size_t blocks_per_axis = 0;  // rounded up, like the next one
  size_t subs_per_axis = 0;
  size_t num_blocks = 0;
  size_t num_elements = 0;

  // Elements that a task works on, and neighbouring columns that it takes along a strided axis.
  // Their amax and factors stay in the first-level cache.
  static constexpr size_t kElementsPerTask = size_t{1} << 14;
  static constexpr size_t kColumnsPerTask = 512;
  // Elements that are treated at a time if there are no blocks, or blocks are small.
  static constexpr size_t kTile = size_t{1} << 11;

  // REQUIRES: formats::SizesOf takes these arguments.
  BlockWalk(const formats::FormatSpec& spec, int64_t outer, int64_t axis_length, int64_t inner_size)
      : axis(static_cast<size_t>(axis_length)), inner(static_cast<size_t>(inner_size)) {
    BITPRESS_DCHECK(outer >= 0 && axis_length >= 0 && inner_size >= 0);
    num_elements = static_cast<size_t>(outer) * axis * inner;
    size_t rows = static_cast<size_t>(outer);
    if (spec.is_blocked()) {
      block = static_cast<size_t>(spec.block_size);
      if (formats::HasShifts(spec)) {
        sub_block = static_cast<size_t>(spec.sub_block_size);
      }
      // Rows that are whole blocks follow each other without a seam: one long row.
      if (inner == 1 && axis % block == 0) {
        axis *= rows;
        rows = 1;
      }
    } else {
      block = kTile;
      axis = num_elements;
      inner = rows = 1;
    }
    if (num_elements == 0) return;
    blocks_per_axis = (axis + block - 1) / block;
    if (sub_block > 0) subs_per_axis = (axis + sub_block - 1) / sub_block;
    num_blocks = rows * blocks_per_axis;
  }

  // Return the first element, shift and scale of block number q; for q == num_blocks the end.
  size_t FirstElement(size_t q) const {
    return (q / blocks_per_axis * axis + q % blocks_per_axis * block) * inner;
  }
  size_t FirstShift(size_t q) const {
    if (sub_block == 0) return 0;
    return (q / blocks_per_axis * subs_per_axis + q % blocks_per_axis * (block / sub_block)) *
           inner;
  }
  size_t FirstScale(size_t q) const { return q * inner; }
  size_t Length(size_t q) const { return std::min(block, axis - q % blocks_per_axis * block); }

  // Returns the number of blocks from q on, not beyond `end`, that follow each other in memory,
  // have the same length and make up a tile; at least one. REQUIRES: inner == 1, q < end <=
  // num_blocks.
  size_t BlocksInTile(size_t q, size_t end) const {
    BITPRESS_DCHECK(inner == 1 && q < end && end <= num_blocks);
    if (Length(q) != block) return 1;
    const size_t in_row = axis / block - q % blocks_per_axis;
    return std::min({in_row, end - q, std::max<size_t>(1, kTile / block)});
  }

  size_t ElementsPerBlock() const { return std::min(block, axis) * inner; }
  // Returns the number of blocks in a batch that gives every thread some tasks; at least one.
  size_t BlocksPerBatch(size_t num_threads) const {
    return std::max<size_t>(1, 16 * kElementsPerTask * num_threads / ElementsPerBlock());
  }
  size_t ChunksPerBlock() const { return (inner + kColumnsPerTask - 1) / kColumnsPerTask; }
  size_t BlocksPerTask() const {
    const size_t elements = std::min(block, axis) * std::min(inner, kColumnsPerTask);
    return std::max<size_t>(1, kElementsPerTask / elements);
  }
};

// A part of a batch: of the blocks [begin, end) the columns [column, column + columns).
struct BlockTask {
  size_t begin = 0, end = 0;
  size_t column = 0, columns = 1;
};

// Calls batch(begin, end) for ranges of blocks in order.
template <class Function>
void ForEachBatch(const BlockWalk& walk, size_t num_threads, Function&& batch) {
  if (walk.num_blocks == 0) return;
  const size_t step = walk.BlocksPerBatch(num_threads);
  for (size_t begin = 0; begin < walk.num_blocks; begin += step) {
    batch(begin, std::min(begin + step, walk.num_blocks));
  }
}

// Return the number of tasks of a batch of blocks [begin, end), and one of them.
inline size_t NumTasks(const BlockWalk& walk, size_t begin, size_t end) {
  const size_t step = walk.BlocksPerTask();
  return (end - begin + step - 1) / step * walk.ChunksPerBlock();
}
inline BlockTask TaskOf(const BlockWalk& walk, size_t begin, size_t end, size_t task) {
  const size_t first = begin + task / walk.ChunksPerBlock() * walk.BlocksPerTask();
  const size_t column = task % walk.ChunksPerBlock() * BlockWalk::kColumnsPerTask;
  return {first, std::min(first + walk.BlocksPerTask(), end), column,
          std::min(BlockWalk::kColumnsPerTask, walk.inner - column)};
}

}  // namespace bitpress::kernels
