#include "kernels/row_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

std::vector<float> RandomRows(size_t num_rows, size_t stride, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(num_rows * stride);
  for (float& value : values) value = normal(random);
  return values;
}

// Computes a product in the order of the header, one element after another.
double ProductInOrder(const float* a, const float* b, size_t length) {
  float sums[kRowProductStep] = {};
  for (size_t k = 0; k < length; ++k) {
    float& sum = sums[k % kRowProductStep];
    sum = std::fma(a[k], b[k], sum);
  }
  for (size_t half = kRowProductStep / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

class RowProductsTest : public TargetTest {};

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
        std::vector<float> put(num_a * out_stride, 7.0F);
        RowProducts({a.data(), num_a, kStride}, {b.data(), num_b, kStride}, length, put.data(),
                    out_stride);
        for (size_t i = 0; i < num_a; ++i) {
          for (size_t j = 0; j < num_b; ++j) {
            const float product =
                static_cast<float>(ProductInOrder(&a[i * kStride], &b[j * kStride], length));
            EXPECT_EQ(put[i * out_stride + j], product);
            const double expected = 1 + ProductInOrder(&a[i * kStride], &b[j * kStride], length);
            EXPECT_EQ(out[i * out_stride + j], expected);
          }
          // Numbers between the rows stay.
          EXPECT_EQ(out[i * out_stride + num_b], 1.0);
          EXPECT_EQ(put[i * out_stride + num_b], 7.0F);
        }
      }
    }
  }
}

// Tries sums whose bits need a fused multiply-add, or one that is emulated with care.
TEST_P(RowProductsTest, RoundsOnce) {
  constexpr size_t kLength = 1 << 10;
  const auto product = [&](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    AddRowProducts({a.data(), 1, a.size()}, {b.data(), 1, b.size()}, a.size(), &sum, 1);
    return sum;
  };
  // The sum is 1 + 2^-23 + 2^-24 - 2^-70. In double it is the middle between two floats, and the
  // even one is wrong.
  std::vector<float> a(2 * kRowProductStep);
  std::vector<float> b(a.size());
  a[0] = 1;
  b[0] = 1 + 0x1p-23F;
  a[kRowProductStep] = 0x1p-12F * (1 + 0x1p-23F);
  b[kRowProductStep] = 0x1p-12F * (1 - 0x1p-23F);
  EXPECT_EQ(product(a, b), 1 + 0x1p-23);
  // There are large and small terms, sums among the subnormal numbers, terms of few bits (so that
  // sums are often in the middle), and zeros.
  for (const float scale : {1.0F, 1e18F, 1e-19F, 1e-22F}) {
    a = RandomRows(1, kLength, 4);
    b = RandomRows(1, kLength, 5);
    for (size_t k = 0; k < kLength; ++k) {
      a[k] *= scale * (k % 3 == 0 ? 1e-3F : 1.0F);
      b[k] *= scale;
      if (k % 7 == 0) a[k] = 0;
    }
    EXPECT_EQ(product(a, b), ProductInOrder(a.data(), b.data(), kLength)) << scale;
    for (float& value : a) value = std::nearbyint(value / scale * 8) * 0x1p-12F;
    for (float& value : b) value = std::nearbyint(value / scale * 8) * 0x1p-12F + 1;
    EXPECT_EQ(product(a, b), ProductInOrder(a.data(), b.data(), kLength)) << scale;
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
                         NameOfTargetParam);

}  // namespace
}  // namespace bitpress::kernels
