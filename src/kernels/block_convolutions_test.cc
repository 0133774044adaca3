#include "kernels/block_convolutions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "formats/reference.h"
#include "kernels/pack_tensor.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

using formats::ConvolutionFormats;
using formats::ConvolutionShape;
using formats::FindFormat;
using formats::WeightBlocks;

std::vector<float> Numbers(int64_t count, uint32_t seed, float huge = 1e15F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const float size = i / 24 % 23 == 3    ? 0.0F
                       : i / 24 % 23 == 7  ? 1e-38F
                       : i / 24 % 23 == 11 ? 1e15F
                       : i / 24 % 23 == 15 ? huge
                                           : std::ldexp(1.0F, static_cast<int>(i / 40 % 7) - 3);
    values[i] = normal(random) * size;
  }
  return values;
}

// A convolution with everything it reads, quantized as the shape says.
struct Case {
  Case(const ConvolutionFormats& f, const ConvolutionShape& s, WeightBlocks b, float huge)
      : formats(f), shape(s), blocks(b) {
    const bool is_along_all = blocks == WeightBlocks::kAlongAll;
    const int64_t depth = shape.channels_of_group(), positions = shape.positions();
    const int64_t axis = is_along_all ? depth * positions : depth;
    const int64_t inner = is_along_all ? 1 : positions;
    w = Numbers(shape.outputs * depth * positions, 1);
    formats::ref::FakeQuantize(formats.weight, w, w, shape.outputs, axis, inner);
    packed = formats::PackedTensor(formats::SizesOf(formats.weight, shape.outputs, axis, inner));
    PackTensor(formats.weight, shape.outputs, axis, inner, w, packed.spans(), pool);
    const int64_t plane = shape.input[0] * shape.input[1];
    x = Numbers(shape.images * shape.channels * plane, 2, huge);
    if (x.size() > 50) x[x.size() / 2] = std::nanf("");
    bias = Numbers(shape.outputs, 3);
    outputs = shape.images * shape.outputs * shape.output(0) * shape.output(1);
    other = Numbers(outputs, 4);
  }

  // The outputs without a tensor to add, a slope and limits, or with all of them.
  std::vector<float> Expected(bool is_full) const {
    std::vector<float> quantized = x, y(static_cast<size_t>(outputs));
    formats::ref::FakeQuantize(formats.input, x, quantized, shape.images, shape.channels,
                               shape.input[0] * shape.input[1]);
    formats::ConvolutionEnd end;
    end.bias = bias;
    if (is_full) end = {bias, other, 0.3F, -2.5F, 3.0F};
    formats::ref::Convolve(formats, shape, blocks, quantized, w, end, y);
    return y;
  }

  std::vector<float> Found(bool is_full) {
    const ConvolutionWeights weights(formats, shape, blocks, packed.view(), pool);
    std::vector<float> y(static_cast<size_t>(outputs), -7.0F);
    ConvolutionOutput output;
    output.data = y.data();
    output.bias = bias.data();
    if (is_full) output = {y.data(), bias.data(), other.data(), 0.3F, -2.5F, 3.0F};
    BlockConvolution(weights, shape.images, shape.input, x.data(), output).Run();
    return y;
  }

  ConvolutionFormats formats;
  ConvolutionShape shape;
  WeightBlocks blocks;
  ThreadPool pool{2};
  formats::PackedTensor packed;
  std::vector<float> w, x, bias, other;
  int64_t outputs = 0;
};

void CheckAgainstReference(const ConvolutionFormats& formats, const ConvolutionShape& shape,
                           WeightBlocks blocks) {
  SCOPED_TRACE(fmt::format("{} of {}: {} channels to {} in {} groups, {} x {}, kernel {} x {}",
                           formats.weight.name, formats.input.name, shape.channels, shape.outputs,
                           shape.groups, shape.input[0], shape.input[1], shape.kernel[0],
                           shape.kernel[1]));
  ASSERT_EQ(formats::WhyNoConvolution(formats), "");
  // Huge values need units that vector code leaves to portable code.
  for (const bool is_full : {false, true}) {
    Case test(formats, shape, blocks, is_full ? 3e37F : 1e15F);
    const std::vector<float> expected = test.Expected(is_full), found = test.Found(is_full);
    ExpectSameBits(found, expected);
  }
}

class BlockConvolutionsTest : public VariantTest {};

// The formats of weight and input: all with whole elements, two of different formats, and floats.
std::vector<ConvolutionFormats> Formats() {
  std::vector<ConvolutionFormats> all;
  for (const char* const name :
       {"mxfp4_e2m1", "mxfp6_e2m3", "mxint8", "mx4", "mx6", "mx9", "bfp16", "mxfp8_e4m3",
        "bfp(bits=12,block=12)", "mx(bits=13,block=20,sub_block=4,shift_bits=2)"}) {
    all.push_back({FindFormat(name), FindFormat(name)});
  }
  all.push_back({FindFormat("mxfp4_e2m1(block=16)"), FindFormat("mx6")});
  all.push_back({FindFormat("mx6"), FindFormat("mx9")});
  all.push_back({FindFormat("mxfp4_e2m1"), FindFormat("mxint8")});
  return all;
}

TEST_P(BlockConvolutionsTest, EqualTheReference) {
  ConvolutionShape small{2, 70, 21, 1, {7, 9}, {1, 1}};
  ConvolutionShape square{1, 36, 9, 1, {9, 11}, {3, 3}};
  square.pads_begin = square.pads_end = {1, 1};
  ConvolutionShape unusual{2, 20, 5, 1, {11, 23}, {3, 2}};
  unusual.strides = {2, 3};
  unusual.dilations = {2, 2};
  unusual.pads_begin = {2, 0};
  unusual.pads_end = {0, 3};
  ConvolutionShape grouped{2, 70, 70, 70, {12, 13}, {3, 3}};
  grouped.strides = {2, 2};
  grouped.pads_begin = grouped.pads_end = {1, 1};
  ConvolutionShape halved{1, 16, 16, 16, {57, 63}, {3, 3}};
  halved.strides = {2, 2};
  ConvolutionShape few{1, 3, 8, 1, {15, 70}, {3, 3}};
  ConvolutionShape triples{1, 42, 70, 14, {5, 6}, {2, 2}};
  ConvolutionShape empty{0, 3, 8, 1, {5, 5}, {1, 1}};
  for (const ConvolutionFormats& formats : Formats()) {
    for (const ConvolutionShape& shape :
         {small, square, unusual, grouped, halved, few, triples, empty}) {
      for (const WeightBlocks blocks : {WeightBlocks::kAlongChannels, WeightBlocks::kAlongAll}) {
        CheckAgainstReference(formats, shape, blocks);
      }
    }
  }
}

TEST_P(BlockConvolutionsTest, EqualTheReferenceInSeveralTiles) {
  for (const char* const name : {"mxint8", "mx6", "mx9"}) {
    const ConvolutionFormats formats{FindFormat(name), FindFormat(name)};
    ConvolutionShape wide{1, 33, 7, 1, {66, 71}, {1, 1}};
    CheckAgainstReference(formats, wide, WeightBlocks::kAlongChannels);
    ConvolutionShape deep{3, 500, 7, 1, {13, 17}, {1, 1}};
    CheckAgainstReference(formats, deep, WeightBlocks::kAlongChannels);
    ConvolutionShape grouped{1, 33, 33, 33, {66, 71}, {5, 5}};
    grouped.pads_begin = grouped.pads_end = {2, 2};
    CheckAgainstReference(formats, grouped, WeightBlocks::kAlongAll);
  }
}

TEST_P(BlockConvolutionsTest, EqualTheReferenceWithAKernelForEachChannel) {
  const auto shape = [](int64_t images, int64_t channels, std::array<int64_t, 2> input,
                        std::array<int64_t, 2> kernel, std::array<int64_t, 2> strides) {
    ConvolutionShape of{images, channels, channels, channels, input, kernel};
    of.strides = strides;
    return of;
  };
  std::vector<ConvolutionShape> shapes;
  for (const int64_t side : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      shapes.push_back(shape(2, 35, {7, 7}, {side, side}, {stride, stride}));
      shapes.back().pads_begin = shapes.back().pads_end = {side / 2, side / 2};
      shapes.push_back(shape(1, 17, {10, 29}, {side, side}, {stride, stride}));
      shapes.back().pads_end = {side / 2, side / 2};
    }
  }
  shapes.push_back(shape(1, 20, {31, 130}, {3, 2}, {2, 1}));  // several pieces and tiles of rows
  shapes.push_back(shape(1, 5, {9, 1}, {3, 1}, {1, 1}));
  shapes.back().dilations = {3, 1};
  shapes.push_back(shape(1, 40, {12, 13}, {3, 3}, {2, 1}));
  shapes.back().dilations = {2, 3};
  shapes.back().pads_begin = {4, 7};
  shapes.push_back(shape(1, 3, {2, 2}, {3, 3}, {4, 4}));  // most outputs are of the padding alone
  shapes.back().pads_begin = {5, 5};
  shapes.back().pads_end = {6, 9};
  for (const char* const name : {"mxint8", "mx6", "bfp16", "mxfp8_e4m3", "bfp(bits=12,block=12)"}) {
    for (const ConvolutionShape& each : shapes) {
      CheckAgainstReference({FindFormat(name), FindFormat(name)}, each, WeightBlocks::kAlongAll);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BlockConvolutionsTest, testing::ValuesIn(Variants()), NameOf);

}  // namespace
}  // namespace bitpress::kernels
