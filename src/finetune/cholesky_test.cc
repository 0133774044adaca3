#include "finetune/cholesky.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// Returns the second moments of correlated inputs, with a ridge.
std::vector<double> MatrixOfMoments(int64_t columns) {
  const auto size = static_cast<size_t>(columns);
  const size_t count = size;
  std::vector<float> x = RandomNormal(count * size, 1);
  for (size_t i = 1; i < x.size(); ++i) x[i] = 0.6F * x[i] + 0.8F * x[i - 1];
  std::vector<double> matrix(size * size);
  for (size_t position = 0; position < count; ++position) {
    const float* const row = x.data() + position * size;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        matrix[i * size + j] += double{row[i]} * row[j] / static_cast<double>(count);
      }
    }
  }
  for (size_t i = 0; i < size; ++i) matrix[i * size + i] += 0.01;
  return matrix;
}

TEST(FactorInPlace, TheFactorTimesItselfIsTheMatrix) {
  ThreadPool pool(3);
  for (const int64_t columns : {1, 40, 256, 257, 400}) {
    const auto size = static_cast<size_t>(columns);
    const std::vector<double> matrix = MatrixOfMoments(columns);
    std::vector<double> factor = matrix;
    ASSERT_TRUE(FactorInPlace(factor, columns, pool));
    for (size_t i = 0; i < size; i += 7) {
      for (size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (size_t k = 0; k <= j; ++k) product += factor[i * size + k] * factor[j * size + k];
        const double scale = std::sqrt(matrix[i * size + i] * matrix[j * size + j]);
        EXPECT_NEAR(product, matrix[i * size + j], 2e-6 * scale)
            << columns << ": " << i << ' ' << j;
      }
    }
  }
}

TEST(FactorInPlace, ThreadsChangeNothing) {
  constexpr int64_t kColumns = 400;
  std::vector<double> one = MatrixOfMoments(kColumns);
  std::vector<double> four = one;
  ThreadPool pool_of_one(1);
  ThreadPool pool_of_four(4);
  ASSERT_TRUE(FactorInPlace(one, kColumns, pool_of_one));
  ASSERT_TRUE(FactorInPlace(four, kColumns, pool_of_four));
  EXPECT_EQ(one, four);
}

TEST(FactorInPlace, AMatrixThatIsNotPositiveHasNone) {
  ThreadPool pool(2);
  for (const int64_t columns : {3, 400}) {
    const auto size = static_cast<size_t>(columns);
    std::vector<double> matrix(size * size);
    for (size_t i = 0; i < size; ++i) matrix[i * size + i] = i + 1 == size ? -1 : 1;
    std::vector<double> again = matrix;
    EXPECT_FALSE(FactorInPlace(matrix, columns, pool));
    EXPECT_FALSE(FactorExactly(again, columns));
  }
}

}  // namespace
}  // namespace bitpress::finetune
