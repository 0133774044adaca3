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
  if (has_the_input(0) && has_the_input(1)) {
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
  const Phase& first = phases_[phase];
  // The columns of the phase that lie in the input: c * stride + first.column - pad in [0, width).
  const auto steps_to = [&](size_t column) {  // the least c with c * stride + first >= column
    return column > first.column ? (column - first.column + stride_x_ - 1) / stride_x_ : 0;
  };
  const size_t inside_begin = std::min(pitch_, steps_to(pad_x_));
  const size_t inside_end = std::min(pitch_, steps_to(pad_x_ + width_));
  const size_t end = begin + count;
  for (size_t at = begin; at < end;) {
    const size_t row = at / pitch_, row_begin = row * pitch_;
    const size_t row_end = std::min(end, row_begin + pitch_);
    const size_t padded_y = row * stride_y_ + first.row;
    const bool is_inside = padded_y >= pad_y_ && padded_y - pad_y_ < height_;
    const size_t from = std::clamp(row_begin + inside_begin, at, row_end);
    const size_t until = is_inside ? std::clamp(row_begin + inside_end, from, row_end) : from;
    to = std::fill_n(to, from - at, 0.0F);
    if (until > from) {
      const float* const values = plane + (padded_y - pad_y_) * width_ +
                                  (from - row_begin) * stride_x_ + first.column - pad_x_;
      if (stride_x_ == 1) {
        to = std::copy_n(values, until - from, to);
      } else {
        for (size_t i = 0; i < until - from; ++i) *to++ = values[i * stride_x_];
      }
    }
    to = std::fill_n(to, row_end - until, 0.0F);
    at = row_end;
  }
}

}  // namespace bitpress::kernels
