#include "kernels/plane_grid.h"

#include "base/check.h"

namespace bitpress::kernels {

PlaneGrid::PlaneGrid(const formats::ConvolutionShape& shape)
    : height_(static_cast<size_t>(shape.input[0])),
      width_(static_cast<size_t>(shape.input[1])),
      out_height_(static_cast<size_t>(shape.output(0))),
      out_width_(static_cast<size_t>(shape.output(1))),
      stride_y_(static_cast<size_t>(shape.strides[0])),
      stride_x_(static_cast<size_t>(shape.strides[1])),
      pad_y_(static_cast<size_t>(shape.pads_begin[0])),
      pad_x_(static_cast<size_t>(shape.pads_begin[1])) {
  const auto has_the_input = [&](size_t d) {
    return shape.kernel[d] == 1 && shape.strides[d] == 1 && shape.pads_begin[d] == 0 &&
           shape.pads_end[d] == 0;
  };
  has_the_input_ = has_the_input(0) && has_the_input(1);
  if (has_the_input_) {
    // Outputs lie as inputs do: in one row.
    out_width_ = width_ = height_ * width_;
    out_height_ = height_ = 1;
  }
  const auto dilation_y = static_cast<size_t>(shape.dilations[0]);
  const auto dilation_x = static_cast<size_t>(shape.dilations[1]);
  const auto kernel_y = static_cast<size_t>(shape.kernel[0]);
  const auto kernel_x = static_cast<size_t>(shape.kernel[1]);
  pitch_ = std::max<size_t>(1, out_width_ + (kernel_x - 1) * dilation_x / stride_x_);
  for (size_t p = 0; p < kernel_y * kernel_x; ++p) {
    const size_t y = p / kernel_x * dilation_y, x = p % kernel_x * dilation_x;
    const Phase phase{y % stride_y_, x % stride_x_};
    const auto known = std::ranges::find_if(phases_, [&](const Phase& other) {
      return other.row == phase.row && other.column == phase.column;
    });
    const auto index = static_cast<size_t>(known - phases_.begin());
    if (known == phases_.end()) phases_.push_back(phase);
    taps_.push_back({index, y / stride_y_ * pitch_ + x / stride_x_});
    reach_ = std::max(reach_, taps_.back().offset);
  }
  if (out_height_ > 0 && out_width_ > 0) num_positions_ = (out_height_ - 1) * pitch_ + out_width_;
}

void PlaneGrid::Read(const float* plane, size_t phase, size_t begin, size_t count,
                     float* to) const {
  BITPRESS_DCHECK(phase < phases_.size());
  const auto first = [](size_t at, size_t pad) {
    return static_cast<ptrdiff_t>(at) - static_cast<ptrdiff_t>(pad);
  };
  const Phase& of = phases_[phase];
  ReadPlaneRows({plane, height_, width_, pitch_, stride_y_, stride_x_, first(of.row, pad_y_),
                 first(of.column, pad_x_), begin, count},
                to);
}

}  // namespace bitpress::kernels
