#include "formats/block_convolutions.h"

#include <cmath>
#include <vector>

#include "base/check.h"

namespace bitpress::formats {
namespace {

// Copies what one output sees of the channels of its group: position after position, or channel
// after channel.
class Window {
 public:
  Window(const ConvolutionShape& shape, std::span<const float> x) : shape_(shape), x_(x) {}

  // The value of channel c at a position of the kernel, for an output of an image.
  float At(int64_t image, int64_t c, int64_t position, int64_t row, int64_t column) const {
    const int64_t y = row * shape_.strides[0] - shape_.pads_begin[0] +
                      position / shape_.kernel[1] * shape_.dilations[0];
    const int64_t x = column * shape_.strides[1] - shape_.pads_begin[1] +
                      position % shape_.kernel[1] * shape_.dilations[1];
    if (y < 0 || y >= shape_.input[0] || x < 0 || x >= shape_.input[1]) return 0;
    const int64_t plane = image * shape_.channels + c;
    return x_[static_cast<size_t>((plane * shape_.input[0] + y) * shape_.input[1] + x)];
  }

 private:
  const ConvolutionShape& shape_;
  std::span<const float> x_;
};

// Sums products whose parts begin anew at each position of the kernel.
float SumParts(std::span<const float> seen, std::span<const float> weights, size_t channels) {
  PartedSum sum;
  for (size_t k = 0; k < seen.size(); ++k) {
    const size_t channel = k % channels;
    if (channel % size_t{kPartElements} == 0) sum.EndPart();
    sum.Add(channel, seen[k], weights[k]);
  }
  sum.EndPart();
  return sum.total;
}

float Finished(float value, const ConvolutionEnd& end) {
  if (value < 0) value *= end.slope;
  if (value < end.least) return end.least;
  return value > end.largest ? end.largest : value;
}

}  // namespace

std::optional<WeightBlocks> WeightBlocksOf(const ConvolutionShape& shape, int64_t outer,
                                           int64_t axis, int64_t inner) {
  const int64_t channels = shape.channels_of_group(), positions = shape.positions();
  if (outer != shape.outputs) return std::nullopt;
  if (axis == channels && inner == positions) return WeightBlocks::kAlongChannels;
  if (inner == 1 && axis % channels == 0 && axis / channels == positions) {
    return WeightBlocks::kAlongAll;
  }
  return std::nullopt;
}

std::string WhyNoConvolution(const ConvolutionFormats& formats) {
  if (formats.weight.is_blocked() != formats.input.is_blocked()) {
    return fmt::format("blocks on one side, {} by {}", formats.weight.name, formats.input.name);
  }
  return WhyNoProduct({formats.input, formats.weight});
}

ProductSums SumsOf(const ConvolutionFormats& formats, const ConvolutionShape& shape,
                   WeightBlocks blocks) {
  if (shape.groups > 1) return ProductSums::kChain;
  const bool is_along = blocks == WeightBlocks::kAlongChannels || shape.positions() == 1;
  if (is_along && SumsOf({formats.input, formats.weight}) == ProductSums::kWhole) {
    return ProductSums::kWhole;
  }
  return shape.channels >= kLeastPartChannels ? ProductSums::kParts : ProductSums::kChain;
}

namespace ref {

void Convolve(const ConvolutionFormats& formats, const ConvolutionShape& shape, WeightBlocks blocks,
              std::span<const float> x, std::span<const float> w, const ConvolutionEnd& end,
              std::span<float> y) {
  BITPRESS_DCHECK(WhyNoConvolution(formats).empty());
  const ProductSums sums = SumsOf(formats, shape, blocks);
  const int64_t depth = shape.channels_of_group(), positions = shape.positions();
  const auto count = static_cast<size_t>(depth * positions);
  const Window window(shape, x);
  std::vector<float> seen(count), weights(count);
  size_t i = 0;
  for (int64_t image = 0; image < shape.images; ++image) {
    for (int64_t output = 0; output < shape.outputs; ++output) {
      const int64_t first = output / shape.outputs_of_group() * depth;
      for (int64_t row = 0; row < shape.output(0); ++row) {
        for (int64_t column = 0; column < shape.output(1); ++column, ++i) {
          for (int64_t c = 0; c < depth; ++c) {
            for (int64_t p = 0; p < positions; ++p) {
              const bool is_chain = sums == ProductSums::kChain;
              const auto at = static_cast<size_t>(is_chain ? c * positions + p : p * depth + c);
              seen[at] = window.At(image, first + c, p, row, column);
              weights[at] = w[static_cast<size_t>((output * depth + c) * positions + p)];
            }
          }
          float sum = 0;
          if (sums == ProductSums::kWhole) {
            MultiplyBlocks({formats.input, formats.weight}, {positions, depth}, weights, seen,
                           {&sum, 1});
          } else if (sums == ProductSums::kParts) {
            sum = SumParts(seen, weights, static_cast<size_t>(depth));
          } else {
            for (size_t k = 0; k < count; ++k) sum = std::fma(seen[k], weights[k], sum);
          }
          if (!end.bias.empty()) sum += end.bias[static_cast<size_t>(output)];
          if (!end.other.empty()) sum += end.other[i];
          y[i] = Finished(sum, end);
        }
      }
    }
  }
}

}  // namespace ref
}  // namespace bitpress::formats
