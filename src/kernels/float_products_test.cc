#include "kernels/float_products.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/plane_products.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

std::vector<float> SomeFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct ProductShape {
  size_t rows, depth, columns;
};

TEST(FloatProducts, AreThoseOfSumsInDoubleInEachLayoutAndTarget) {
  constexpr std::array<ProductShape, 6> kShapes{
      {{1, 1, 1}, {6, 3, 32}, {7, 257, 33}, {13, 300, 600}, {5, 64, 16}, {3, 0, 4}}};
  OnEveryTarget([&] {
    for (const auto& [rows, depth, columns] : kShapes) {
      const std::vector<float> a = SomeFloats(rows * depth, 1);
      const std::vector<float> b = SomeFloats(depth * columns, 2);
      for (const bool adds : {false, true}) {
        for (const bool is_turned : {false, true}) {
          const MatrixView of_a =
              is_turned ? MatrixView{a.data(), 1, rows} : MatrixView{a.data(), depth, 1};
          const MatrixView of_b =
              is_turned ? MatrixView{b.data(), 1, depth} : MatrixView{b.data(), columns, 1};
          std::vector<float> c(rows * (columns + 1), 0.5F);
          Multiply(PackedMatrix(rows, depth, of_a), columns, of_b, c.data(), columns + 1, adds);
          for (size_t i = 0; i < rows; ++i) {
            for (size_t j = 0; j < columns; ++j) {
              double sum = adds ? 0.5 : 0.0;
              for (size_t k = 0; k < depth; ++k) {
                sum += double{of_a.data[i * of_a.row_stride + k * of_a.column_stride]} *
                       double{of_b.data[k * of_b.row_stride + j * of_b.column_stride]};
              }
              EXPECT_NEAR(c[i * (columns + 1) + j], sum, 1e-4);
            }
            EXPECT_EQ(c[i * (columns + 1) + columns], 0.5F);  // it writes nothing else
          }
        }
      }
    }
  });
}

TEST(PlaneProducts, AreThoseOfSumsInDoubleInEachTarget) {
  constexpr std::array<size_t, 7> kOffsets{0, 1, 2, 11, 12, 13, 40};
  const std::vector<float> taps = SomeFloats(kOffsets.size(), 3);
  const std::vector<float> x = SomeFloats(160, 4);
  OnEveryTarget([&] {
    for (const size_t count : {size_t{1}, size_t{16}, size_t{77}}) {
      std::vector<float> y(96, 7.0F);
      CorrelatePlane(x.data(), count, taps, kOffsets, 0.25F, y.data());
      std::vector<float> g = SomeFloats(96, 5);
      for (size_t i = count; i < g.size(); ++i) g[i] = 0;
      std::vector<float> sums(kOffsets.size(), 1.0F);
      AddPlaneProducts(x.data(), g.data(), count, kOffsets, sums.data());
      for (size_t i = 0; i < count; ++i) {
        double sum = 0.25;
        for (size_t t = 0; t < taps.size(); ++t) {
          sum += double{taps[t]} * double{x[i + kOffsets[t]]};
        }
        EXPECT_NEAR(y[i], sum, 1e-5);
      }
      for (size_t t = 0; t < taps.size(); ++t) {
        double sum = 1;
        for (size_t i = 0; i < count; ++i) sum += double{g[i]} * double{x[i + kOffsets[t]]};
        EXPECT_NEAR(sums[t], sum, 1e-4);
      }
    }
  });
}

}  // namespace
}  // namespace bitpress::kernels
