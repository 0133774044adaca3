#include "finetune/quadratic_form.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

// Sizes around the tiles and the steps of the kernel, each against the definition.
TEST(QuadraticForms, AreThoseOfTheDefinition) {
  for (const int64_t columns : {1, 15, 16, 64, 65, 130}) {
    for (const int64_t num_rows : {1, 64, 130}) {
      const auto size = static_cast<size_t>(columns);
      const std::vector<float> half = RandomNormal(size * size, 1);
      const std::vector<float> rows = RandomNormal(static_cast<size_t>(num_rows) * size, 2);
      const auto at = [&](size_t i, size_t j) { return half[i * size + j] + half[j * size + i]; };
      const auto matrix = [&](int64_t row, int64_t count, float* out) {
        for (size_t k = 0; k < static_cast<size_t>(count); ++k)
          out[k] = at(static_cast<size_t>(row), k);
      };
      const auto errors = [&](int64_t row, int64_t count, float* out) {
        std::copy_n(rows.begin() + row * columns, count, out);
      };
      ThreadPool one(1);
      ThreadPool four(4);
      const std::vector<double> forms = QuadraticForms(columns, matrix, num_rows, errors, one);
      EXPECT_EQ(forms, QuadraticForms(columns, matrix, num_rows, errors, four));
      for (size_t row = 0; row < forms.size(); ++row) {
        const float* const e = rows.data() + row * size;
        double expected = 0;
        double magnitude = 0;
        for (size_t i = 0; i < size; ++i) {
          for (size_t j = 0; j < size; ++j) {
            const double term = double{e[i]} * at(i, j) * e[j];
            expected += term;
            magnitude += std::abs(term);
          }
        }
        EXPECT_NEAR(forms[row], expected, 1e-6 * magnitude) << columns << " columns, row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::finetune
