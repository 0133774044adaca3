// The specification of convolutions with weights in blocks, whose input is quantized to a block
// format along its channels. The kernels of kernels/block_convolutions.h equal it bit for bit on
// every instruction set. Pure.
//
// A result is the sum of products, plus the bias, plus another tensor if there is one, then times a
// slope if it is negative, and then limited. Values outside the input are zeros that are multiplied
// as others are. The products are summed in one of three ways:
//   whole   if the weight's blocks run along the channels as those of the input do, and both have
//           whole elements: as products in blocks (formats/block_products.h) of the weight's rows
//           and of columns that hold one position of the kernel after another, each of them a
//           segment of all channels;
//   parts   otherwise, if there is one group of at least kLeastPartChannels channels: as products
//           in parts, of blocks of all channels, one position of the kernel after another;
//   chain   otherwise: one chain of fused multiply-adds from zero, channel after channel, and
//           position after position within a channel.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "formats/block_products.h"
#include "formats/format_spec.h"

namespace bitpress::formats {

// The shape of a convolution over two dimensions, of tensors [images, channels, height, width].
struct ConvolutionShape {
  int64_t images = 1;
  int64_t channels = 1;  // of the input, in all groups
  int64_t outputs = 1;   // channels of the output, in all groups
  int64_t groups = 1;
  std::array<int64_t, 2> input{1, 1};
  std::array<int64_t, 2> kernel{1, 1};
  std::array<int64_t, 2> strides{1, 1};
  std::array<int64_t, 2> dilations{1, 1};
  std::array<int64_t, 2> pads_begin{0, 0};
  std::array<int64_t, 2> pads_end{0, 0};

  int64_t channels_of_group() const { return channels / groups; }
  int64_t outputs_of_group() const { return outputs / groups; }
  int64_t positions() const { return kernel[0] * kernel[1]; }
  int64_t output(size_t dimension) const {
    const size_t d = dimension;
    const int64_t reach = dilations[d] * (kernel[d] - 1) + 1;
    const int64_t room = input[d] + pads_begin[d] + pads_end[d] - reach;
    return room < 0 ? 0 : room / strides[d] + 1;
  }
};

// The formats of a convolution.
struct ConvolutionFormats {
  FormatSpec weight;
  FormatSpec input;
};

// How the blocks of a weight [outputs, channels of a group, kernel] lie.
enum class WeightBlocks {
  kAlongChannels,  // one position after another has blocks of its own
  kAlongAll,       // channels and positions are one dimension
};

// Returns how the blocks lie along the middle dimension of a weight that is seen as [outer, axis,
// inner]; nothing if in neither way. BF16's lie along the channels.
std::optional<WeightBlocks> WeightBlocksOf(const ConvolutionShape& shape, int64_t outer,
                                           int64_t axis, int64_t inner);

// These follow the sums.
struct ConvolutionEnd {
  std::span<const float> bias;   // one number for each output channel, or none
  std::span<const float> other;  // a tensor like the output, or none
  float slope = 1;               // what multiplies negative sums
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};

// Returns why there is no such convolution, as a clause; "" if there is.
std::string WhyNoConvolution(const ConvolutionFormats& formats);

// With fewer channels, and in groups, parts would be too short to be worth their ends.
inline constexpr int64_t kLeastPartChannels = 16;

// REQUIRES: WhyNoConvolution(formats) is empty.
ProductSums SumsOf(const ConvolutionFormats& formats, const ConvolutionShape& shape,
                   WeightBlocks blocks);

namespace ref {

// Writes y. REQUIRES: x and w are quantized, and all tensors have the sizes of the shape.
void Convolve(const ConvolutionFormats& formats, const ConvolutionShape& shape, WeightBlocks blocks,
              std::span<const float> x, std::span<const float> w, const ConvolutionEnd& end,
              std::span<float> y);

}  // namespace ref
}  // namespace bitpress::formats
