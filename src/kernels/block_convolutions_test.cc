#include "kernels/block_convolutions.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <ostream>
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

// Numbers of different sizes: some are zeros, tiny or huge; close ones are neither tiny nor huge.
// Some have few bits, so that ties are rounded.
std::vector<float> ImageNumbers(int64_t count, uint32_t seed, float huge = 1e15F,
                                bool are_close = false) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const float size = i / 24 % 23 == 3    ? 0.0F
                       : are_close         ? std::ldexp(1.0F, static_cast<int>(i / 40 % 7) - 3)
                       : i / 24 % 23 == 7  ? 1e-38F
                       : i / 24 % 23 == 11 ? 1e15F
                       : i / 24 % 23 == 15 ? huge
                                           : std::ldexp(1.0F, static_cast<int>(i / 40 % 7) - 3);
    values[i] = normal(random) * size;
    const float step = std::ldexp(1.0F, -static_cast<int>(i % 8) - 1);
    if (i / 24 % 23 == 13) values[i] = std::nearbyint(values[i] / step) * step;
  }
  return values;
}

// The outputs without a tensor to add, a slope and limits, or with all of them.
struct ConvolutionCase {
  ConvolutionOutput output() const {
    ConvolutionOutput to;
    if (is_full) to = {nullptr, nullptr, other.data(), 0.3F, -2.5F, 3.0F};
    to.bias = bias.data();
    return to;
  }
  formats::ConvolutionEnd end() const {
    formats::ConvolutionEnd from;
    if (is_full) from = {{}, other, 0.3F, -2.5F, 3.0F};
    from.bias = bias;
    return from;
  }

  bool is_full = false;
  std::vector<float> x, bias, other, expected;
};

// Compares kernels with the reference on every instruction set. Weights that are close let tiles
// multiply them, and then so are the inputs of one of the cases.
void CheckConvolution(const ConvolutionFormats& formats, const ConvolutionShape& shape,
                      WeightBlocks blocks, size_t num_threads = 1, bool are_close = false) {
  SCOPED_TRACE(fmt::format("{} of {}: {} channels to {} in {} groups, {} x {}, kernel {} x {}",
                           formats.weight.name, formats.input.name, shape.channels, shape.outputs,
                           shape.groups, shape.input[0], shape.input[1], shape.kernel[0],
                           shape.kernel[1]));
  ASSERT_EQ(formats::WhyNoConvolution(formats), "");
  ThreadPool pool(num_threads);
  const bool is_along_all = blocks == WeightBlocks::kAlongAll;
  const int64_t depth = shape.channels_of_group(), positions = shape.positions();
  const int64_t axis = is_along_all ? depth * positions : depth;
  const int64_t inner = is_along_all ? 1 : positions;
  std::vector<float> w = ImageNumbers(shape.outputs * depth * positions, 1, 1e15F, are_close);
  // Batch normalization leaves such channels.
  for (int64_t k = 0; are_close && k < depth * positions; ++k) {
    w[static_cast<size_t>(k)] *= 0x1p-40F;
  }
  formats::ref::FakeQuantize(formats.weight, w, w, shape.outputs, axis, inner);
  formats::PackedTensor packed(formats::SizesOf(formats.weight, shape.outputs, axis, inner));
  PackTensor(formats.weight, shape.outputs, axis, inner, w, packed.spans(), pool);
  const int64_t plane = shape.input[0] * shape.input[1];
  const int64_t outputs = shape.images * shape.outputs * shape.output(0) * shape.output(1);
  ConvolutionCase cases[2];
  for (const bool is_full : {false, true}) {
    ConvolutionCase& test = cases[is_full ? 1 : 0];
    test.is_full = is_full;
    // Huge values need units that vector code leaves to portable code.
    test.x = ImageNumbers(shape.images * shape.channels * plane, 2, is_full ? 3e37F : 1e15F,
                          are_close && !is_full);
    // Products with those channels are nearly as small as tiles take them.
    for (int64_t c = 0; c < shape.images * shape.channels; ++c) {
      if (are_close && !is_full) test.x[static_cast<size_t>(c * plane)] *= 0x1p-50F;
    }
    if (test.x.size() > 50) test.x[test.x.size() / 2] = std::nanf("");
    test.bias = ImageNumbers(shape.outputs, 3);
    test.other = ImageNumbers(outputs, 4);
    std::vector<float> quantized = test.x;
    formats::ref::FakeQuantize(formats.input, test.x, quantized, shape.images, shape.channels,
                               plane);
    test.expected.resize(static_cast<size_t>(outputs));
    formats::ref::Convolve(formats, shape, blocks, quantized, w, test.end(), test.expected);
  }
  const auto has_bytes_only = [](const formats::FormatSpec& spec) {
    const formats::BlockUnits rule = *formats::BlockUnitsOf(spec);
    return rule.is_whole() && rule.largest <= INT8_MAX;
  };
  const bool has_bytes = has_bytes_only(formats.weight) && has_bytes_only(formats.input);
  OnEveryVariant([&] {
    const ConvolutionWeights weights(formats, shape, blocks, packed.view(), pool);
    if (are_close && shape.outputs > 64 && weights.sums() != formats::ProductSums::kChain) {
      const bool has_pairs = CurrentTarget() == "AVX3_BF16" && !has_bytes;
      EXPECT_EQ(weights.has_codes() && IsInTiles(weights.form()),
                has_pairs || CurrentTarget() == "AMX");
    }
    for (const ConvolutionCase& test : cases) {
      std::vector<float> y(test.expected.size(), -7.0F);
      ConvolutionOutput output = test.output();
      output.data = y.data();
      BlockConvolution(weights, shape.images, shape.input, test.x.data(), output).Run();
      ExpectSameBits(y, test.expected);
    }
  });
}

// The names of the formats of weight and input.
struct FormatNames {
  const char* weight;
  const char* input;
};
void PrintTo(const FormatNames& names, std::ostream* out) {
  *out << names.weight << " of " << names.input;
}

// Returns a shape with strides, dilations and pads that differ.
ConvolutionShape UnusualShape(int64_t channels, int64_t outputs) {
  ConvolutionShape shape{2, channels, outputs, 1, {11, 23}, {3, 2}};
  shape.strides = {2, 3};
  shape.dilations = {2, 2};
  shape.pads_begin = {2, 0};
  shape.pads_end = {0, 3};
  return shape;
}

class BlockConvolutionsInFormats : public testing::TestWithParam<FormatNames> {};

TEST_P(BlockConvolutionsInFormats, EqualTheReference) {
  ConvolutionShape small{2, 70, 21, 1, {7, 9}, {1, 1}};
  ConvolutionShape square{1, 36, 9, 1, {9, 11}, {3, 3}};
  square.pads_begin = square.pads_end = {1, 1};
  ConvolutionShape grouped{2, 70, 70, 70, {12, 13}, {3, 3}};
  grouped.strides = {2, 2};
  grouped.pads_begin = grouped.pads_end = {1, 1};
  ConvolutionShape halved{1, 16, 16, 16, {57, 63}, {3, 3}};
  halved.strides = {2, 2};
  ConvolutionShape few{1, 3, 8, 1, {15, 70}, {3, 3}};
  ConvolutionShape triples{1, 42, 70, 14, {5, 6}, {2, 2}};
  ConvolutionShape empty{0, 3, 8, 1, {5, 5}, {1, 1}};
  const ConvolutionFormats formats{FindFormat(GetParam().weight), FindFormat(GetParam().input)};
  for (const ConvolutionShape& shape :
       {small, square, UnusualShape(20, 5), grouped, halved, few, triples, empty}) {
    for (const WeightBlocks blocks : {WeightBlocks::kAlongChannels, WeightBlocks::kAlongAll}) {
      CheckConvolution(formats, shape, blocks);
    }
    CheckConvolution(formats, shape, WeightBlocks::kAlongChannels, 1, /*are_close=*/true);
  }
  // Tiles multiply what has many outputs and much to sum.
  ConvolutionShape deep{2, 100, 70, 1, {7, 9}, {1, 1}};
  ConvolutionShape padded{1, 36, 66, 1, {6, 7}, {3, 3}};
  padded.pads_begin = padded.pads_end = {1, 1};
  for (const ConvolutionShape& shape : {deep, padded, UnusualShape(40, 65)}) {
    CheckConvolution(formats, shape, WeightBlocks::kAlongChannels, 1, /*are_close=*/true);
  }
}

// Whole elements of bytes and of words, floats, and two formats.
INSTANTIATE_TEST_SUITE_P(OfEachKind, BlockConvolutionsInFormats,
                         testing::ValuesIn({FormatNames{"mx6", "mx6"},
                                            {"mx9", "mx9"},
                                            {"mxfp8_e4m3", "mxfp8_e4m3"},
                                            {"bf16", "bf16"},
                                            {"mxfp4_e2m1", "mxint8"}}));
INSTANTIATE_TEST_SUITE_P(WholeRest, BlockConvolutionsInFormats,
                         testing::ValuesIn({FormatNames{"mxfp4_e2m1", "mxfp4_e2m1"},
                                            {"mxfp6_e2m3", "mxfp6_e2m3"},
                                            {"mxint8", "mxint8"},
                                            {"mx4", "mx4"},
                                            {"bfp16", "bfp16"},
                                            {"bfp(bits=12,block=12)", "bfp(bits=12,block=12)"},
                                            {"mx(bits=13,block=20,sub_block=4,shift_bits=2)",
                                             "mx(bits=13,block=20,sub_block=4,shift_bits=2)"},
                                            {"mxfp4_e2m1(block=16)", "mx6"},
                                            {"mx6", "mx9"}}));

// Panels of floats have nearly as many output channels as vectors, and take 112 positions at a
// time.
TEST_P(BlockConvolutionsInFormats, EqualTheReferenceInPanels) {
  const ConvolutionFormats formats{FindFormat(GetParam().weight), FindFormat(GetParam().input)};
  ConvolutionShape whole{2, 170, 47, 1, {13, 17}, {1, 1}};
  ConvolutionShape padded{1, 36, 31, 1, {9, 20}, {3, 3}};
  padded.pads_begin = padded.pads_end = {1, 1};
  ConvolutionShape long_rows{1, 33, 32, 1, {1, 301}, {1, 3}};
  for (const ConvolutionShape& shape : {whole, padded, UnusualShape(40, 16), long_rows}) {
    for (const WeightBlocks blocks : {WeightBlocks::kAlongChannels, WeightBlocks::kAlongAll}) {
      CheckConvolution(formats, shape, blocks, 3);
    }
    CheckConvolution(formats, shape, WeightBlocks::kAlongChannels, 1, /*are_close=*/true);
  }
}

void CheckTiles(const char* name) {
  const ConvolutionFormats formats{FindFormat(name), FindFormat(name)};
  ConvolutionShape wide{1, 33, 7, 1, {66, 71}, {1, 1}};
  CheckConvolution(formats, wide, WeightBlocks::kAlongChannels, 3);
  CheckConvolution(formats, wide, WeightBlocks::kAlongChannels, 3, /*are_close=*/true);
  ConvolutionShape deep{3, 500, 7, 1, {13, 17}, {1, 1}};
  CheckConvolution(formats, deep, WeightBlocks::kAlongChannels, 3);
  ConvolutionShape grouped{1, 33, 33, 33, {66, 71}, {5, 5}};
  grouped.pads_begin = grouped.pads_end = {2, 2};
  CheckConvolution(formats, grouped, WeightBlocks::kAlongAll, 3);
}

TEST(WholeBlockConvolutions, EqualTheReferenceInSeveralTiles) {
  for (const char* const name : {"mxint8", "mx6", "mx9"}) CheckTiles(name);
}

TEST(BlockConvolutions, EqualTheReferenceInSeveralTilesOfFloats) {
  const ConvolutionShape in_panels{9, 70, 47, 1, {30, 30}, {1, 1}};
  for (const char* const name : {"mxfp8_e4m3", "bf16"}) {
    CheckTiles(name);
    CheckConvolution({FindFormat(name), FindFormat(name)}, in_panels, WeightBlocks::kAlongChannels);
  }
}

void CheckKernelsForEachChannel(std::initializer_list<const char*> names) {
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
  for (const char* const name : names) {
    for (const ConvolutionShape& each : shapes) {
      CheckConvolution({FindFormat(name), FindFormat(name)}, each, WeightBlocks::kAlongAll);
    }
  }
}

TEST(BlockConvolutions, EqualTheReferenceWithAKernelForEachChannel) {
  CheckKernelsForEachChannel({"mx6", "mxfp8_e4m3", "bf16"});
}
TEST(WholeBlockConvolutions, EqualTheReferenceWithAKernelForEachChannel) {
  CheckKernelsForEachChannel({"mxint8", "bfp16", "bfp(bits=12,block=12)"});
}

}  // namespace
}  // namespace bitpress::kernels
