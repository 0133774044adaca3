// A task of a convolution in blocks, with what it reads and writes. Internal to
// kernels/block_convolutions.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/convolution_weights.h"
#include "kernels/plane_grid.h"

namespace bitpress::kernels {

// Sums go here: there is a plane for each output channel of an image.
struct ConvolutionOutput {
  float* data = nullptr;         // [images, outputs, positions]
  const float* bias = nullptr;   // for each output channel
  const float* other = nullptr;  // added, like data, or null; may be the same memory
  float slope = 1;               // what multiplies negative sums, before the limits
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};

// The positions of outputs that are computed together are a multiple of this.
inline constexpr size_t kStripPositions = 64;
// Panels of output channels are multiplied with so many positions at most, whose sums stay in the
// first-level cache with what they read.
inline constexpr size_t kPanelPositions = 112;

// Neighbouring positions of the outputs of an image, and what their products read.
struct ConvolutionTile {
  size_t image = 0;
  size_t begin = 0, end = 0;  // positions of outputs
  size_t stored = 0;          // positions that the columns have: those and the ones in reach
  // Codes: the pieces and units of all phases' blocks, where BlockColumns says.
  uint8_t* codes = nullptr;
  uint8_t* units = nullptr;
  // Floats: the planes of some channels' phases, or where columns lie as the input does, strips of
  // neighbouring positions of all these channels.
  float* values = nullptr;
  // The outputs, none across a multiple of kStripPositions from `begin` on.
  std::vector<PlaneGrid::Run> runs;
};

// This says where a block of the columns lies, for one position of the kernel.
struct BlockColumns {
  size_t codes = 0;  // offsets in the tile, of its first position
  size_t units = 0;
  size_t pieces = 0;
};

// The products of output channels [output_begin, output_end) with a tile.
struct ConvolutionTask {
  const ConvolutionWeights* weights = nullptr;
  const ConvolutionTile* tile = nullptr;
  const std::vector<BlockColumns>* blocks = nullptr;  // in the order of summing
  const ConvolutionOutput* output = nullptr;
  size_t output_size = 0;  // of a plane
  size_t output_begin = 0, output_end = 0;
  // Floats: the offset of each factor's values in the tile, from its group's first channel on; the
  // first channel of the tile, the floats of a channel, and those that strips have for a position.
  const size_t* offsets = nullptr;
  size_t first_channel = 0, channel_floats = 0, position_floats = 1;

  // Returns the values of a channel from position `at` of the tile on, where a strip begins.
  const float* values(size_t channel, size_t at) const {
    return tile->values + (channel - first_channel) * channel_floats + at * position_floats;
  }
};
using ConvolutionKernel = void (*)(const ConvolutionTask&);

// The versions without vectors.
void ConvolveCodesPortably(const ConvolutionTask& task);
void ConvolveFloatsPortably(const ConvolutionTask& task);

// The version that uses dot products, for a target by its index in kTargetNames, or null.
ConvolutionKernel DotConvolutionKernel(size_t target);

// The versions that use tiles, and dot products of bfloat16 in their place, or null if this build
// has none.
ConvolutionKernel TileConvolutionKernel();
ConvolutionKernel PairConvolutionKernel();

}  // namespace bitpress::kernels
