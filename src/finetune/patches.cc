#include "finetune/patches.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace bitpress::finetune {
namespace {

// Returns the place of a tap in the kernel, along each dimension.
std::vector<int64_t> TapOffsets(const Window& window, int64_t tap) {
  std::vector<int64_t> offsets(window.kernel.size());
  for (size_t d = window.kernel.size(); d-- > 0;) {
    offsets[d] = tap % window.kernel[d];
    tap /= window.kernel[d];
  }
  return offsets;
}

// Copies positions [first, first + count) of one channel of an array [batch, channels, positions].
void CopyChannel(const float* from, int64_t num_channels, int64_t channel, int64_t num_positions,
                 int64_t first, int64_t count, float* out) {
  for (int64_t i = 0; i < count;) {
    const int64_t batch = (first + i) / num_positions;
    const int64_t at = (first + i) % num_positions;
    const int64_t length = std::min(count - i, num_positions - at);
    std::copy_n(from + (batch * num_channels + channel) * num_positions + at, length, out + i);
    i += length;
  }
}

std::string Shape(std::span<const int64_t> dims) {
  std::vector<std::string> words;
  for (const int64_t dim : dims) words.push_back(std::to_string(dim));
  return fmt::format("[{}]", Join(words, ", "));
}

}  // namespace

PatchReader::PatchReader(const LinearLayer& layer, std::span<const int64_t> input_dims,
                         std::span<const int64_t> output_dims)
    : layer_(layer) {
  const auto require = [&](bool fits) {
    if (!fits) {
      Fail(ErrorCode::kRuntime, "{} '{}': input {} and output {} do not fit the weight '{}'",
           layer.op_type, layer.node(), Shape(input_dims), Shape(output_dims), layer.weight);
    }
  };
  input_channels_ = layer.groups * layer.columns / layer.num_taps();
  output_channels_ = layer.groups * layer.rows;
  if (layer.layout == PositionLayout::kChannelsLast) {
    require(!input_dims.empty() && !output_dims.empty() && input_dims.back() == input_channels_ &&
            output_dims.back() == output_channels_);
    num_positions_ = NumElements(input_dims) / input_channels_;
    require(num_positions_ == NumElements(output_dims) / output_channels_);
    return;
  }
  if (layer.layout == PositionLayout::kChannelsFirst) {
    const size_t rank = input_dims.size();
    require(rank >= 2 && output_dims.size() == rank && input_dims[rank - 2] == input_channels_ &&
            output_dims[rank - 2] == output_channels_ && output_dims.back() == input_dims.back());
    batch_positions_ = input_dims.back();
    num_positions_ = NumElements(input_dims) / input_channels_;
    require(num_positions_ == NumElements(output_dims) / output_channels_);
    return;
  }
  const Window& window = layer.window;
  const size_t num_spatial = window.kernel.size();
  require(input_dims.size() == num_spatial + 2 && output_dims.size() == num_spatial + 2 &&
          input_dims[1] == input_channels_ && output_dims[1] == output_channels_ &&
          input_dims[0] == output_dims[0]);
  input_size_.assign(input_dims.begin() + 2, input_dims.end());
  output_size_.assign(output_dims.begin() + 2, output_dims.end());
  batch_positions_ = NumElements(output_size_);
  num_positions_ = input_dims[0] * batch_positions_;
  pads_ = window.pads_begin;
  for (size_t d = 0; d < num_spatial; ++d) {
    if (window.auto_pad == "VALID") {
      pads_[d] = 0;
    } else if (window.auto_pad != "NOTSET") {
      const int64_t needed = (output_size_[d] - 1) * window.strides[d] +
                             (window.kernel[d] - 1) * window.dilations[d] + 1 - input_size_[d];
      const int64_t total = std::max<int64_t>(needed, 0);
      pads_[d] = window.auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
    }
  }
}

int64_t PatchReader::PlaceOf(size_t d, int64_t out, int64_t offset) const {
  const Window& window = layer_.window;
  const int64_t reach = offset * window.dilations[d];
  if (layer_.layout == PositionLayout::kWindows) return out * window.strides[d] - pads_[d] + reach;
  const int64_t stuffed = out + pads_[d] - reach;
  return stuffed >= 0 && stuffed % window.strides[d] == 0 ? stuffed / window.strides[d] : -1;
}

void PatchReader::ReadWindows(const float* input, int64_t channel, int64_t tap, int64_t first,
                              int64_t count, float* out) const {
  const std::vector<int64_t> offsets = TapOffsets(layer_.window, tap);
  const size_t last = offsets.size() - 1;
  std::vector<int64_t> at(offsets.size());
  for (int64_t i = 0; i < count;) {
    int64_t rest = (first + i) % batch_positions_;
    for (size_t d = offsets.size(); d-- > 0;) {
      at[d] = rest % output_size_[d];
      rest /= output_size_[d];
    }
    // The other dimensions are the same up to the end of this row of the output.
    const int64_t length = std::min(count - i, output_size_[last] - at[last]);
    int64_t row = (first + i) / batch_positions_ * input_channels_ + channel;
    bool is_inside = true;
    for (size_t d = 0; d < last; ++d) {
      const int64_t in = PlaceOf(d, at[d], offsets[d]);
      is_inside = is_inside && in >= 0 && in < input_size_[d];
      row = row * input_size_[d] + in;
    }
    if (is_inside) {
      ReadRow(input + row * input_size_[last], at[last], offsets[last], length, out + i);
    } else {
      std::fill_n(out + i, length, 0.0F);
    }
    i += length;
  }
}

void PatchReader::ReadRow(const float* input, int64_t first, int64_t offset, int64_t length,
                          float* out) const {
  const size_t last = input_size_.size() - 1;
  const int64_t size = input_size_[last];
  if (layer_.layout == PositionLayout::kScatter) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t in = PlaceOf(last, first + i, offset);
      out[i] = in >= 0 && in < size ? input[in] : 0.0F;
    }
    return;
  }
  const int64_t stride = layer_.window.strides[last];
  const int64_t begin = PlaceOf(last, first, offset);
  const int64_t num_before =
      std::clamp<int64_t>(begin < 0 ? (-begin + stride - 1) / stride : 0, 0, length);
  const int64_t num_inside =
      std::clamp<int64_t>(begin < size ? (size - 1 - begin) / stride + 1 : 0, num_before, length);
  std::fill_n(out, num_before, 0.0F);
  if (stride == 1) {
    std::copy_n(input + begin + num_before, num_inside - num_before, out + num_before);
  } else {
    for (int64_t i = num_before; i < num_inside; ++i) out[i] = input[begin + i * stride];
  }
  std::fill_n(out + num_inside, length - num_inside, 0.0F);
}

void PatchReader::ReadInputRow(const float* input, int64_t row, int64_t first, int64_t count,
                               float* out) const {
  BITPRESS_DCHECK(row >= 0 && row < layer_.groups * layer_.columns);
  BITPRESS_DCHECK(first >= 0 && count >= 0 && first + count <= num_positions_);
  if (layer_.layout == PositionLayout::kChannelsLast) {
    const float* from = input + first * input_channels_ + row;
    for (int64_t i = 0; i < count; ++i) out[i] = from[i * input_channels_];
    return;
  }
  const int64_t taps = layer_.num_taps();
  const int64_t channel = row / taps;
  const bool is_plain =
      layer_.layout == PositionLayout::kChannelsFirst ||
      (layer_.layout == PositionLayout::kWindows && taps == 1 && input_size_ == output_size_ &&
       std::ranges::all_of(pads_, [](int64_t pad) { return pad == 0; }) &&
       std::ranges::all_of(layer_.window.strides, [](int64_t stride) { return stride == 1; }));
  if (is_plain) {
    CopyChannel(input, input_channels_, channel, batch_positions_, first, count, out);
    return;
  }
  ReadWindows(input, channel, row % taps, first, count, out);
}

void PatchReader::ReadOutputRow(const float* output, int64_t row, int64_t first, int64_t count,
                                float* out) const {
  BITPRESS_DCHECK(row >= 0 && row < layer_.groups * layer_.rows);
  BITPRESS_DCHECK(first >= 0 && count >= 0 && first + count <= num_positions_);
  if (layer_.layout == PositionLayout::kChannelsLast) {
    const float* from = output + first * output_channels_ + row;
    for (int64_t i = 0; i < count; ++i) out[i] = from[i * output_channels_];
    return;
  }
  CopyChannel(output, output_channels_, row, batch_positions_, first, count, out);
}

}  // namespace bitpress::finetune
