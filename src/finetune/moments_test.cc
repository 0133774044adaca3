#include "finetune/moments.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/error.h"
#include "finetune/layer_tuner.h"
#include "finetune/moment_accumulator.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// A convolution of two spatial dimensions, with its output computed by the definition.
struct Convolution {
  bool is_transposed = false;
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;  // channels of one group
  int64_t height = 5, width = 6, kernel_height = 1, kernel_width = 1;
  int64_t stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  int64_t out_height() const { return OutSize(height, kernel_height); }
  int64_t out_width() const { return OutSize(width, kernel_width); }
  int64_t OutSize(int64_t size, int64_t kernel) const {
    const int64_t reach = (kernel - 1) * dilation + 1;
    return is_transposed ? (size - 1) * stride + reach - pad_begin - pad_end
                         : (size + pad_begin + pad_end - reach) / stride + 1;
  }

  LinearLayer MakeLayer() const {
    LinearLayer layer;
    layer.readings = {{"conv", 0, "", ""}};
    layer.op_type = is_transposed ? "ConvTranspose" : "Conv";
    layer.weight = "w";
    layer.layout = is_transposed ? PositionLayout::kScatter : PositionLayout::kWindows;
    layer.window.kernel = {kernel_height, kernel_width};
    layer.window.strides = {stride, stride};
    layer.window.dilations = {dilation, dilation};
    layer.window.pads_begin = {pad_begin, pad_begin};
    const int64_t taps = kernel_height * kernel_width;
    layer.groups = groups;
    layer.rows = out_channels;
    layer.columns = in_channels * taps;
    layer.row_stride = is_transposed ? taps : layer.columns;
    layer.channel_stride = is_transposed ? out_channels * taps : taps;
    layer.group_stride = in_channels * out_channels * taps;
    return layer;
  }

  std::vector<int64_t> InputDims() const { return {batch, groups * in_channels, height, width}; }
  std::vector<int64_t> OutputDims() const {
    return {batch, groups * out_channels, out_height(), out_width()};
  }

  // Computes the output by adding up every pair of an input and an output element that a tap
  // connects.
  std::vector<float> Compute(const std::vector<float>& x, const std::vector<float>& w,
                             const std::vector<float>& b) const {
    std::vector<double> y(static_cast<size_t>(NumElements(OutputDims())));
    const int64_t oh = out_height();
    const int64_t ow = out_width();
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = double{b[i / static_cast<size_t>(oh * ow) % b.size()]};
    }
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t o = 0; o < out_channels; ++o)
          for (int64_t c = 0; c < in_channels; ++c)
            for (int64_t ky = 0; ky < kernel_height; ++ky)
              for (int64_t kx = 0; kx < kernel_width; ++kx)
                for (int64_t a = 0; a < (is_transposed ? height : oh); ++a)
                  for (int64_t e = 0; e < (is_transposed ? width : ow); ++e) {
                    const int64_t across_y = a * stride + ky * dilation - pad_begin;
                    const int64_t across_x = e * stride + kx * dilation - pad_begin;
                    const int64_t in_y = is_transposed ? a : across_y;
                    const int64_t in_x = is_transposed ? e : across_x;
                    const int64_t out_y = is_transposed ? across_y : a;
                    const int64_t out_x = is_transposed ? across_x : e;
                    if (in_y < 0 || in_y >= height || in_x < 0 || in_x >= width) continue;
                    if (out_y < 0 || out_y >= oh || out_x < 0 || out_x >= ow) continue;
                    const int64_t first = is_transposed ? (g * in_channels + c) * out_channels + o
                                                        : (g * out_channels + o) * in_channels + c;
                    const int64_t weight = (first * kernel_height + ky) * kernel_width + kx;
                    const int64_t from =
                        ((n * groups + g) * in_channels + c) * height * width + in_y * width + in_x;
                    const int64_t to =
                        ((n * groups + g) * out_channels + o) * oh * ow + out_y * ow + out_x;
                    y[static_cast<size_t>(to)] += double{w[static_cast<size_t>(weight)]} *
                                                  double{x[static_cast<size_t>(from)]};
                  }
    return {y.begin(), y.end()};
  }
};

class ConvolutionTest : public testing::TestWithParam<Convolution> {};

// The moments give the error of any weights: 0 for the layer's own weights, and for others the
// error of their outputs.
TEST_P(ConvolutionTest, ErrorIsThatOfTheOutputs) {
  const Convolution& conv = GetParam();
  const LinearLayer layer = conv.MakeLayer();
  const std::vector<float> x = RandomNormal(static_cast<size_t>(NumElements(conv.InputDims())), 1);
  std::vector<float> w = RandomNormal(static_cast<size_t>(layer.groups * layer.group_stride), 2);
  std::vector<float> b = RandomNormal(static_cast<size_t>(layer.groups * layer.rows), 3);
  const std::vector<float> y = conv.Compute(x, w, b);
  MomentAccumulator accumulator(layer);
  accumulator.Add(conv.InputDims(), x.data(), conv.OutputDims(), y.data(), RunInOrder());
  const Moments moments = accumulator.Finish(RunInOrder()).Finish();
  const int64_t positions = conv.batch * conv.out_height() * conv.out_width();
  EXPECT_EQ(moments.num_positions, positions);

  ThreadPool pool(2);
  EXPECT_NEAR(MeanSquaredError(layer, moments, w, b, pool), 0, 1e-4);
  for (size_t i = 0; i < w.size(); i += 2) w[i] += 0.25F;
  b[0] -= 1;
  const std::vector<float> other = conv.Compute(x, w, b);
  double expected = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    expected += (double{other[i]} - double{y[i]}) * (double{other[i]} - double{y[i]});
  }
  expected /= static_cast<double>(positions);
  EXPECT_NEAR(MeanSquaredError(layer, moments, w, b, pool), expected, 1e-4 * (1 + expected));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvolutionTest,
    testing::Values(Convolution{.in_channels = 7, .out_channels = 5},
                    Convolution{.batch = 2,
                                .in_channels = 3,
                                .out_channels = 4,
                                .kernel_height = 3,
                                .kernel_width = 3,
                                .stride = 2,
                                .pad_begin = 1,
                                .pad_end = 1},
                    Convolution{.groups = 6, .kernel_height = 3, .kernel_width = 5, .pad_begin = 2},
                    Convolution{.groups = 2,
                                .in_channels = 3,
                                .out_channels = 2,
                                .height = 9,
                                .width = 8,
                                .kernel_height = 2,
                                .kernel_width = 3,
                                .dilation = 2,
                                .pad_end = 1},
                    Convolution{.is_transposed = true,
                                .batch = 2,
                                .in_channels = 3,
                                .out_channels = 4,
                                .kernel_height = 2,
                                .kernel_width = 2,
                                .stride = 2},
                    Convolution{.is_transposed = true,
                                .groups = 3,
                                .in_channels = 2,
                                .kernel_height = 4,
                                .kernel_width = 3,
                                .stride = 2,
                                .pad_begin = 1,
                                .pad_end = 1}));

TEST(Moments, SpilledOnesAreTheSame) {
  const LinearLayer layer = GemmLayer(70, 9);
  const std::vector<float> x = RandomNormal(70 * 9000, 1);
  const std::vector<float> y = RandomNormal(9 * 9000, 2);
  const auto gather = [&](bool is_spilled) {
    MomentAccumulator accumulator(layer, {.is_spilled = is_spilled});
    for (int64_t begin = 0; begin < 9000; begin += 3000) {
      accumulator.Add(std::vector<int64_t>{3000, 70}, x.data() + begin * 70,
                      std::vector<int64_t>{3000, 9}, y.data() + begin * 9, RunInOrder());
    }
    return accumulator.Finish(RunInOrder()).Finish();
  };
  const Moments expected = gather(false);
  const Moments found = gather(true);
  EXPECT_TRUE(found.inputs == expected.inputs);
  EXPECT_TRUE(found.cross == expected.cross);
  EXPECT_TRUE(found.input_sums == expected.input_sums);
}

// Every input is the number of its position, so that the sums show which positions were taken.
class SomePositionsTest : public testing::Test {
 protected:
  Moments Gather(int64_t num_positions, uint64_t seed, int64_t num_runs,
                 const runtime::ParallelTasks& run) {
    MomentAccumulator accumulator(layer_, {.num_positions = num_positions, .seed = seed});
    for (int64_t i = 0; i < num_runs; ++i) {
      accumulator.Add(std::vector<int64_t>{1, 1, 90, 100}, x_.data(),
                      std::vector<int64_t>{1, 1, 90, 100}, x_.data(), run,
                      {static_cast<uint64_t>(i)});
    }
    return accumulator.Finish(run).Finish();
  }

  const LinearLayer layer_ = Convolution{.height = 90, .width = 100}.MakeLayer();
  const std::vector<float> x_ = [] {
    std::vector<float> x(9000);
    std::iota(x.begin(), x.end(), 0.0F);
    return x;
  }();
};

TEST_F(SomePositionsTest, OneOfEachPartIsTaken) {
  const Moments some = Gather(100, 7, 1, RunInOrder());
  EXPECT_EQ(some.num_positions, 100);
  // One position of each part of 90 is taken.
  double least = 0;
  for (int i = 0; i < 100; ++i) least += 90 * i;
  EXPECT_GE(some.input_sums[0], least);
  EXPECT_LT(some.input_sums[0], least + 100 * 89);
  EXPECT_EQ(some.input_sums[0], some.output_sums[0]);
  EXPECT_EQ(some.inputs[0], some.cross[0]);
}

TEST_F(SomePositionsTest, SeedAndRunDecideWhich) {
  const auto sum = [&](uint64_t seed, int64_t num_runs) {
    return Gather(100, seed, num_runs, RunInOrder()).input_sums[0];
  };
  EXPECT_EQ(sum(7, 3), Gather(100, 7, 3, RunBackwards()).input_sums[0]);
  EXPECT_NE(sum(7, 1), sum(8, 1));
  EXPECT_NE(sum(7, 2), 2 * sum(7, 1));
}

TEST_F(SomePositionsTest, AllAreTakenWhereThereAreNoMore) {
  const Moments all = Gather(0, 0, 1, RunInOrder());
  EXPECT_EQ(all.num_positions, 9000);
  EXPECT_TRUE(Gather(9000, 7, 1, RunInOrder()).inputs == all.inputs);
}

TEST(Moments, PositionsWithSpecialValuesAreLeftOut) {
  const LinearLayer layer = GemmLayer(3, 2);
  std::vector<float> x = RandomNormal(3 * 10, 1);
  std::vector<float> y = RandomNormal(2 * 10, 2);
  std::vector<float> clean_x(x.begin(), x.begin() + 3 * 8);
  std::vector<float> clean_y(y.begin(), y.begin() + 2 * 8);
  x[3 * 8 + 1] = std::numeric_limits<float>::quiet_NaN();
  y[2 * 9] = std::numeric_limits<float>::infinity();
  const Moments found = GemmMoments(layer, x, y);
  const Moments expected = GemmMoments(layer, clean_x, clean_y);
  EXPECT_EQ(found.num_positions, 8);
  EXPECT_EQ(found.num_skipped, 2);
  EXPECT_TRUE(found.inputs == expected.inputs);
  EXPECT_TRUE(found.cross == expected.cross);
}

TEST(Moments, ABiasThatStaysIsTakenOut) {
  const LinearLayer layer = GemmLayer(3, 2);
  const std::vector<float> x = RandomNormal(3 * 10, 1);
  const std::vector<float> y = RandomNormal(2 * 10, 2);
  const std::vector<float> bias{3, -0.5};
  std::vector<float> with_bias = y;
  for (size_t i = 0; i < y.size(); ++i) with_bias[i] += bias[i % 2];
  Moments found = GemmMoments(layer, x, with_bias);
  SubtractBias(layer, bias, found);
  const Moments expected = GemmMoments(layer, x, y);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(found.output_sums[i], expected.output_sums[i], 1e-5);
    EXPECT_NEAR(found.output_squares[i], expected.output_squares[i], 1e-5);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(found.cross.data()[3 * i + k], expected.cross.data()[3 * i + k], 1e-5);
    }
  }
  EXPECT_TRUE(found.inputs == expected.inputs);
  Moments nothing;
  SubtractBias(layer, bias, nothing);
  EXPECT_TRUE(nothing.output_sums.empty());
}

TEST(Moments, RefuseOtherShapes) {
  const LinearLayer layer = GemmLayer(3, 2);
  MomentAccumulator accumulator(layer);
  const std::vector<float> values(100);
  EXPECT_THROW(accumulator.Add(std::vector<int64_t>{4, 5}, values.data(),
                               std::vector<int64_t>{4, 2}, values.data(), RunInOrder()),
               Error);
}

TEST(Moments, HalvesOfARunAddUpToTheRun) {
  const LinearLayer layer = GemmLayer(6, 2);
  const std::vector<float> x = RandomNormal(7 * 6, 1);
  const std::vector<float> y = RandomNormal(7 * 2, 2);
  const auto moments_of = [&](PositionPart part) {
    MomentAccumulator accumulator(layer);
    accumulator.Add(std::vector<int64_t>{7, 6}, x.data(), std::vector<int64_t>{7, 2}, y.data(),
                    RunInOrder(), {0, part});
    return accumulator.Finish(RunInOrder()).Finish();
  };
  const Moments all = moments_of(PositionPart::kAll);
  Moments sum = moments_of(PositionPart::kFirstHalf);
  EXPECT_EQ(sum.num_positions, 4);
  // The first half has the first positions.
  const Moments first = GemmMoments(layer, {x.begin(), x.begin() + 24}, {y.begin(), y.begin() + 8});
  EXPECT_EQ(sum.inputs, first.inputs);
  AddMoments(moments_of(PositionPart::kSecondHalf), sum);
  EXPECT_EQ(sum.num_positions, 7);
  for (size_t i = 0; i < all.inputs.size(); ++i) EXPECT_NEAR(sum.inputs[i], all.inputs[i], 1e-5);
  for (size_t i = 0; i < all.cross.size(); ++i) EXPECT_NEAR(sum.cross[i], all.cross[i], 1e-5);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(sum.output_squares[i], all.output_squares[i], 1e-5);
}

}  // namespace
}  // namespace bitpress::finetune
