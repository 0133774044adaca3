// The properties of Quark's LSTM and its errors. Its bits are compared with Quark's own in
// tests/golden.
#include "kernels/extended_lstm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/error.h"

namespace bitpress::kernels {
namespace {

using testing::HasSubstr;

// One direction of a layer with random weights.
struct Layer {
  ExtendedLstmSizes sizes;
  std::vector<float> x, w, r, b;

  Layer(size_t steps, size_t input_size, size_t hidden_size)
      : sizes{steps, input_size, hidden_size},
        x(Random(steps * input_size, 2)),
        w(Random(4 * hidden_size * input_size, 0.7f)),
        r(Random(4 * hidden_size * hidden_size, 0.7f)),
        b(Random(8 * hidden_size, 0.7f)) {}

  std::vector<float> Run(const ExtendedLstmScales& scales, bool is_backward = false) const {
    std::vector<float> y(sizes.steps * sizes.hidden_size, -9.0f);
    ExtendedLstm(scales).Run(
        sizes, {x.data(), w.data(), r.data(), b.data(), y.data(), sizes.hidden_size}, is_backward);
    return y;
  }

  // Returns the outputs of an LSTM in double.
  std::vector<float> RunExactly(bool is_backward = false) const {
    const size_t hidden = sizes.hidden_size, inputs = sizes.input_size;
    std::vector<double> state(hidden), cells(hidden);
    std::vector<float> y(sizes.steps * hidden);
    for (size_t step = 0; step < sizes.steps; ++step) {
      const size_t at = is_backward ? sizes.steps - 1 - step : step;
      std::vector<double> sums(4 * hidden);
      for (size_t i = 0; i < 4 * hidden; ++i) {
        sums[i] = b[i] + b[4 * hidden + i];
        for (size_t j = 0; j < inputs; ++j) sums[i] += w[i * inputs + j] * x[at * inputs + j];
        for (size_t j = 0; j < hidden; ++j) sums[i] += r[i * hidden + j] * state[j];
      }
      const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
      for (size_t i = 0; i < hidden; ++i) {
        cells[i] = sigmoid(sums[2 * hidden + i]) * cells[i] +
                   sigmoid(sums[i]) * std::tanh(sums[3 * hidden + i]);
        state[i] = sigmoid(sums[hidden + i]) * std::tanh(cells[i]);
        y[at * hidden + i] = static_cast<float>(state[i]);
      }
    }
    return y;
  }

 private:
  static std::vector<float> Random(size_t count, float size) {
    static std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-size, size);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random);
    return values;
  }
};

// Scales with which no value of a Layer saturates.
constexpr ExtendedLstmScales kScales{{4.1f / 65535, 32768},
                                     {1.5f / 65535, 32768},
                                     {1.5f / 65535, 32768},
                                     {1.5f / 65535, 32768},
                                     {2.1f / 65535, 32768}};

double LargestError(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double{a[i]} - b[i]));
  return largest;
}

TEST(ExtendedLstm, IsCloseToTheExactLayerInBothDirections) {
  const Layer layer(20, 12, 9);
  for (const bool is_backward : {false, true}) {
    EXPECT_LT(LargestError(layer.Run(kScales, is_backward), layer.RunExactly(is_backward)), 5e-4);
  }
}

TEST(ExtendedLstm, IsCloseToTheExactLayerWithOtherZeroPoints) {
  const Layer layer(20, 12, 9);
  ExtendedLstmScales scales = kScales;
  for (CodeScale* scale : {&scales.x, &scales.w, &scales.r, &scales.b}) {
    scale->scale *= 1.5f;
    scale->zero_point = 40000;
  }
  EXPECT_LT(LargestError(layer.Run(scales), layer.RunExactly()), 2e-3);
}

TEST(ExtendedLstm, APowerOfTwoTurnsTheSignOfTheInputs) {
  Layer layer(1, 12, 9);
  ExtendedLstmScales scales = kScales;
  scales.x.scale = 0x1p-13f;
  scales.w.scale = 0x1p-15f;
  const std::vector<float> turned = layer.Run(scales);
  for (float& value : layer.x) value = -value;
  EXPECT_LT(LargestError(turned, layer.RunExactly()), 2e-3);
}

TEST(ExtendedLstm, OutputsAreCodes) {
  for (const float value : Layer(4, 3, 5).Run(kScales)) {
    const float code = value / kScales.y.scale;
    EXPECT_NEAR(code, std::round(code), 0.01);
  }
}

std::string ErrorOf(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExtendedLstm, RefusesScalesThatAreNoPositiveNumbers) {
  for (const float bad : {0.0f, -1.0f, std::nanf(""), HUGE_VALF}) {
    ExtendedLstmScales scales = kScales;
    scales.b.scale = bad;
    EXPECT_THAT(ErrorOf([&] { ExtendedLstm{scales}; }), HasSubstr("b_scale is "));
  }
}

TEST(ExtendedLstm, RefusesScalesBeyondThoseOfTheOperator) {
  const auto error = [](const std::function<void(ExtendedLstmScales&)>& change) {
    ExtendedLstmScales scales = kScales;
    change(scales);
    return ErrorOf([&] { ExtendedLstm{scales}; });
  };
  EXPECT_THAT(error([](auto& scales) { scales.x.scale = 0x1p10f; }),
              HasSubstr("x_scale * w_scale"));
  EXPECT_THAT(error([](auto& scales) { scales.x.scale = 0x1p-40f; }),
              HasSubstr("x_scale * w_scale"));
  EXPECT_THAT(error([](auto& scales) { scales.w.scale = scales.x.scale = 1e-30f; }),
              HasSubstr("x_scale and w_scale is 0"));
  EXPECT_THAT(error([](auto& scales) { scales.r.scale = 64; }), HasSubstr("y_scale * r_scale"));
  EXPECT_THAT(error([](auto& scales) {
                scales.r.scale = 0.125f;
                scales.r.zero_point = 0;
              }),
              HasSubstr("(r_zero_point - 32768)"));
  EXPECT_THAT(error([](auto& scales) { scales.y.scale = 0x1p-8f; }), HasSubstr("y_scale is "));
  EXPECT_EQ(error([](auto& scales) { scales.y.scale = 0x1.fffffep-9f; }), "no error");
}

TEST(ExtendedLstm, RefusesSizesBeyondTheScales) {
  ExtendedLstmScales scales = kScales;
  scales.x.scale = 0x1p6f;  // the factor of the products has no shift
  scales.w.zero_point = 32768;
  EXPECT_THAT(ErrorOf([&] { Layer(1, 5, 2).Run(scales); }), HasSubstr("the input's size is 5"));
}

}  // namespace
}  // namespace bitpress::kernels
