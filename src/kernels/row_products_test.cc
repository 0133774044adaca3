#include "kernels/row_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu_target.h"

namespace bitpress::kernels {
namespace {

std::vector<float> RandomRows(size_t num_rows, size_t stride, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(num_rows * stride);
  for (float& value : values) value = normal(random);
  return values;
}

class RowProductsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

TEST_P(RowProductsTest, AddsTheProductsOfEveryPairOfRows) {
  constexpr size_t kStride = 80;
  for (const size_t length : {size_t{16}, size_t{64}}) {
    for (const size_t num_a : {size_t{1}, size_t{4}, size_t{7}}) {
      for (const size_t num_b : {size_t{1}, size_t{3}, size_t{9}}) {
        const std::vector<float> a = RandomRows(num_a, kStride, 1);
        const std::vector<float> b = RandomRows(num_b, kStride, 2);
        const size_t out_stride = num_b + 2;
        std::vector<double> out(num_a * out_stride, 1.0);
        AddRowProducts({a.data(), num_a, kStride}, {b.data(), num_b, kStride}, length, out.data(),
                       out_stride);
        for (size_t i = 0; i < num_a; ++i) {
          for (size_t j = 0; j < num_b; ++j) {
            double expected = 1;
            for (size_t k = 0; k < length; ++k) {
              expected += double{a[i * kStride + k]} * double{b[j * kStride + k]};
            }
            EXPECT_NEAR(out[i * out_stride + j], expected, 2e-5);
          }
          // What lies between the rows stays.
          EXPECT_EQ(out[i * out_stride + num_b], 1.0);
        }
      }
    }
  }
}

TEST_P(RowProductsTest, DoesNotDependOnHowRowsAreCutIntoCalls) {
  constexpr size_t kRows = 13;
  constexpr size_t kLength = 208;
  const std::vector<float> a = RandomRows(kRows, kLength, 3);
  std::vector<double> whole(kRows * kRows);
  AddRowProducts({a.data(), kRows, kLength}, {a.data(), kRows, kLength}, kLength, whole.data(),
                 kRows);
  std::vector<double> parts(kRows * kRows);
  for (size_t i = 0; i < kRows; i += 5) {
    for (size_t j = 0; j < kRows; j += 3) {
      AddRowProducts({a.data() + i * kLength, std::min<size_t>(5, kRows - i), kLength},
                     {a.data() + j * kLength, std::min<size_t>(3, kRows - j), kLength}, kLength,
                     parts.data() + i * kRows + j, kRows);
    }
  }
  EXPECT_EQ(whole, parts);
}

INSTANTIATE_TEST_SUITE_P(Targets, RowProductsTest, testing::ValuesIn(SupportedTargets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace bitpress::kernels
