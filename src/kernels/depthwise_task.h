// The pieces of work of depthwise convolutions that vector code does. 16 channels of a position lie
// next to each other there. Internal to kernels/depthwise_convolutions.h.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/convolution_task.h"

namespace bitpress::kernels {

// Positions of channels that lie apart, and where those of rows go.
struct SpreadTask {
  const float* from = nullptr;  // channel c's position p at from[c * stride + p]
  size_t stride = 0;
  size_t channels = 0;           // at most kPanelColumns; others repeat the last one
  size_t count = 0;              // positions, `width` of each row; there is room for 15 more
  size_t width = 0, used = 0;    // of each row the first `used` positions are written
  float* const* rows = nullptr;  // position x of a row at rows[row] + x * kPanelColumns
};

// The sums of neighbouring positions of some channels, and the planes that they go to.
struct FinishTask {
  const float* sums = nullptr;  // [count][pitch], of which each begins with the channels
  size_t pitch = 0;
  size_t count = 0;
  size_t channels = 0;  // at most kPanelColumns
  const ConvolutionOutput* output = nullptr;
  size_t first_output = 0;      // the number of the first channel
  size_t index = 0, plane = 0;  // of its first position, and from one plane to the next
};

// The vector code sees outputs of kPanelColumns channels as this.
struct DepthwiseRows {
  const float* taps = nullptr;         // [positions of the kernel][kPanelColumns]
  const float* const* rows = nullptr;  // what each output row reads for each row of the kernel
  size_t num_rows = 0;                 // output rows
  size_t width = 0;                    // outputs of a row
  std::array<size_t, 2> kernel{1, 1};
  size_t stride = 1, dilation = 1;  // along a row
  float* sums = nullptr;            // [num_rows * width][kPanelColumns]
};

// Lets the processor fetch the lines that outputs will be written to, which lie in many planes,
// while their sums are computed.
inline void PrefetchOutputs(const FinishTask& task) {
  constexpr size_t kLineFloats = 16;
  for (size_t c = 0; c < task.channels; ++c) {
    const float* const to = task.output->data + task.index + c * task.plane;
    for (size_t i = 0; i < task.count; i += kLineFloats) {
      __builtin_prefetch(to + i, /*for writing=*/1, /*second level=*/2);
    }
  }
}

// Turns channels of positions to positions of channels.
void SpreadPositions(const SpreadTask& task);
// Multiplies and adds.
void SumDepthwise(const DepthwiseRows& task);
// Turns sums back, and adds and limits what follows them.
void FinishPositions(const FinishTask& task);

}  // namespace bitpress::kernels
