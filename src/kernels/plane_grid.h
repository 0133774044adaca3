// How convolutions see the planes of their input: as rows of positions of equal pitch, padding
// included, so that neighbouring outputs read neighbouring values at every position of the kernel.
// Strides divide a plane into phases, each with every s-th row and column. Internal to the kernels
// of convolutions. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "formats/block_convolutions.h"

namespace bitpress::kernels {

// The positions of a phase that are read from a plane of the input.
struct PlaneRows {
  const float* plane = nullptr;
  size_t height = 0, width = 0;
  size_t pitch = 1;
  size_t stride_y = 1, stride_x = 1;
  ptrdiff_t first_y = 0, first_x = 0;  // in the input, of position 0; negative in the padding
  size_t begin = 0, count = 0;         // positions
};
// Writes the values of positions, zeros outside the input, and up to kMostBehind others behind.
inline constexpr size_t kMostBehind = 15;
void ReadPlaneRows(const PlaneRows& rows, float* to);

// One row of some channels, of which every stride-th value is read.
struct SplitRow {
  const float* values = nullptr;
  size_t channel_stride = 0;
  size_t channels = 0;
  size_t width = 0;
  size_t stride = 1;
  ptrdiff_t first = 0;  // the first value that is read, negative in the padding
  size_t count = 0;     // values that are read, zeros outside the row
};
// Writes them for each channel, to_stride apart, and up to kMostBehind others behind.
void ReadSplitRow(const SplitRow& row, float* to, size_t to_stride);

class PlaneGrid {
 public:
  // A position of the kernel reads this: output q has its value at q + offset of the phase.
  struct Tap {
    size_t phase = 0;
    size_t offset = 0;
  };
  // Neighbouring outputs: positions from `position` on are the elements from `index` on of a plane
  // of the output.
  struct Run {
    size_t position = 0;
    size_t index = 0;
    size_t count = 0;
  };

  explicit PlaneGrid(const formats::ConvolutionShape& shape);

  // The positions of outputs, of which those behind the end of an output row are nobody's.
  size_t num_positions() const { return num_positions_; }
  // The positions behind an output's that its taps may read.
  size_t reach() const { return reach_; }
  // Returns whether positions lie as the input's values do.
  bool has_the_input() const { return has_the_input_; }
  size_t num_phases() const { return phases_.size(); }
  size_t pitch() const { return pitch_; }
  // Every stride-th row and column from these on, in the input with its padding.
  struct Phase {
    size_t row = 0, column = 0;
  };
  const std::vector<Phase>& phases() const { return phases_; }
  size_t stride_y() const { return stride_y_; }
  size_t stride_x() const { return stride_x_; }
  size_t pad_y() const { return pad_y_; }
  size_t pad_x() const { return pad_x_; }
  size_t height() const { return height_; }
  size_t width() const { return width_; }
  const std::vector<Tap>& taps() const { return taps_; }
  size_t input_size() const { return height_ * width_; }
  size_t output_size() const { return out_height_ * out_width_; }

  // Writes `count` values of a phase of a plane from position `begin` on, and up to kMostBehind
  // others behind them.
  void Read(const float* plane, size_t phase, size_t begin, size_t count, float* to) const;

  // Calls function(run) for the runs of outputs among the positions [begin, end).
  template <class Function>
  void ForEachRun(size_t begin, size_t end, Function&& function) const {
    for (size_t row = begin / pitch_; row < out_height_ && row * pitch_ < end; ++row) {
      const size_t from = std::max(begin, row * pitch_);
      const size_t to = std::min(end, row * pitch_ + out_width_);
      if (from < to) function(Run{from, row * out_width_ + from - row * pitch_, to - from});
    }
  }

 private:
  size_t height_, width_, out_height_, out_width_;
  size_t stride_y_, stride_x_, pad_y_, pad_x_;
  bool has_the_input_ = false;
  size_t pitch_ = 1, num_positions_ = 0, reach_ = 0;
  std::vector<Phase> phases_;
  std::vector<Tap> taps_;
};

}  // namespace bitpress::kernels
