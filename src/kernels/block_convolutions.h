// Convolutions whose weights lie in blocks of codes and whose input is quantized on the way, on
// every instruction set the same bits as formats::ref::Convolve. Work is cut into independent
// tasks, which a caller runs on threads of its own. For example:
//
//   const ConvolutionWeights weights(formats, shape, blocks, packed, pool);    // once
//   BlockConvolution convolution(weights, images, height, width, x, output);
//   pool.ParallelFor(convolution.num_column_tasks(),
//                    [&](size_t i) { convolution.RunColumnTask(i); });
//   pool.ParallelFor(convolution.num_tasks(), [&](size_t i) { convolution.RunTask(i); });
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/convolution_task.h"
#include "kernels/convolution_weights.h"
#include "kernels/depthwise_convolutions.h"
#include "kernels/fake_quantize.h"
#include "kernels/plane_grid.h"
#include "kernels/scratch.h"

namespace bitpress::kernels {

class BlockConvolution {
 public:
  // x has the floats [images, channels, height, width], which are quantized to the weights' input
  // format. The arguments' memory outlives it. REQUIRES: height and width with their padding are at
  // least as large as the kernel reaches.
  BlockConvolution(const ConvolutionWeights& weights, int64_t images,
                   std::array<int64_t, 2> input_size, const float* x,
                   const ConvolutionOutput& output);

  // The tasks of the first loop, which quantizes what several tasks of the second read; there may
  // be none. Then those of the second, which multiply.
  size_t num_column_tasks() const { return shared_.size() * column_tasks_per_tile(); }
  void RunColumnTask(size_t task);
  size_t num_tasks() const { return depthwise_ ? depthwise_->num_tasks() : num_tiles_ * chunks_; }
  void RunTask(size_t task) const;
  // Runs all tasks on this thread.
  void Run();

 private:
  void PlanCodes();
  void PlanFloats();
  // Lets several tasks share a tile, if there are few tiles.
  void ShareTiles();
  // Returns a tile without columns.
  ConvolutionTile TileOf(size_t index) const;
  // Quantizes a block of channels of a tile: to codes, or to floats at `values`.
  void QuantizeCodes(ConvolutionTile& tile, size_t phase, size_t block) const;
  void QuantizeFloats(const ConvolutionTile& tile, size_t channel, size_t count,
                      float* values) const;
  // Does so for one row of the input, whose first channel's values are at `from`; `row` counts
  // from the first that the tile reads. `quantized` holds such a row.
  void QuantizeRow(const float* from, size_t count, size_t row, float* quantized,
                   float* values) const;
  size_t column_tasks_per_tile() const;
  // The floats of a channel of a tile, or of one of its strips.
  size_t channel_floats() const { return strip_ > 0 ? strip_ : grid_.num_phases() * stored_; }
  // Return the memory that a tile has its columns in now: codes, or floats of a chunk's channels.
  Scratch AllocateCodes(ConvolutionTile& tile) const;
  Scratch AllocateFloats(ConvolutionTile& tile) const;
  void RunCodes(const ConvolutionTile& tile, size_t begin, size_t end) const;
  void RunFloats(size_t tile, size_t chunk) const;
  const float* Plane(size_t image, size_t channel) const;

  const ConvolutionWeights& weights_;
  formats::ConvolutionShape shape_;
  PlaneGrid grid_;
  const float* x_;
  ConvolutionOutput output_;
  std::optional<DepthwiseConvolution> depthwise_;  // does all of it, if there is one
  FakeQuantizer quantizer_;                        // of columns of a block
  size_t tile_positions_ = 0, stored_ = 0;
  size_t tiles_per_image_ = 0, num_tiles_ = 0;
  size_t chunks_ = 1;  // tasks of a tile
  size_t outputs_per_chunk_ = 0;
  // Floats: the groups of a chunk and their channels, and the positions of a strip, 0 for planes.
  size_t groups_per_chunk_ = 0, chunk_channels_ = 0, strip_ = 0;
  // Codes: what each block of the sums reads, and the tiles that several tasks read.
  std::vector<BlockColumns> blocks_;
  std::vector<size_t> block_codes_;  // the offsets of the codes of a phase's blocks, and their end
  std::vector<ConvolutionTile> shared_;
  std::vector<Scratch> shared_scratch_;
  std::vector<size_t> offsets_;                      // floats
  mutable std::atomic<bool> has_large_unit_{false};  // vector code cannot multiply a tile
};

}  // namespace bitpress::kernels
