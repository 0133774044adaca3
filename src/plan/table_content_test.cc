#include "plan/table_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/test_support.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 6;

std::string WhyFloat(const std::function<double(int64_t row, int64_t column)>& value) {
  std::vector<float> values;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      values.push_back(static_cast<float>(value(row, column)));
    }
  }
  const Tensor table = MakeTensor(DataType::kFloat, {kRows, kColumns}, values);
  return WhyTableStaysFloat({table.type, table.dims, table.bytes});
}

double Angle(int64_t column) { return std::pow(100.0, -static_cast<double>(column) / kColumns); }

TEST(WhyTableStaysFloat, RotaryTablesAreWaves) {
  const auto cosine = [](int64_t row, int64_t column) {
    return 1.3 * std::cos(static_cast<double>(row) * Angle(column));
  };
  const auto sine = [](int64_t row, int64_t column) {
    return std::sin(static_cast<double>(row) * Angle(column));
  };
  EXPECT_THAT(WhyFloat(cosine), HasSubstr("rotary"));
  EXPECT_THAT(WhyFloat(sine), HasSubstr("rotary"));
}

TEST(WhyTableStaysFloat, BoxesAreNoEmbeddings) {
  const std::vector<float> boxes(size_t{4} * kRows, 0.5F);
  const Tensor table = MakeTensor(DataType::kFloat, {kRows, 4}, boxes);
  EXPECT_THAT(WhyTableStaysFloat({table.type, table.dims, table.bytes}),
              HasSubstr("rows are 4 numbers"));
}

TEST(WhyTableStaysFloat, EmbeddingsAreNot) {
  const auto noise = [](int64_t row, int64_t column) {
    return std::sin(12.9898 * static_cast<double>(row * row + 7 * column * row + column));
  };
  EXPECT_EQ(WhyFloat(noise), "");
  // One learned column among waves.
  EXPECT_EQ(WhyFloat([&](int64_t row, int64_t column) {
              return column == 3 ? noise(row, column)
                                 : std::cos(static_cast<double>(row) * Angle(column));
            }),
            "");
  // Straight lines, and nothing but zeros.
  EXPECT_EQ(WhyFloat([](int64_t row, int64_t) { return static_cast<double>(row); }), "");
  EXPECT_EQ(WhyFloat([](int64_t, int64_t) { return 0.0; }), "");
}

TEST(WhyTableStaysFloat, InfinityAndNanHaveNoCode) {
  const auto with = [](double special) {
    return WhyFloat([=](int64_t row, int64_t column) {
      return row == 3 && column == 2 ? special : static_cast<double>(row * column % 7);
    });
  };
  EXPECT_THAT(with(-std::numeric_limits<double>::infinity()), HasSubstr("-infinity in row 3"));
  EXPECT_THAT(with(std::numeric_limits<double>::quiet_NaN()), HasSubstr("NaN in row 3"));
}

}  // namespace
}  // namespace bitpress::plan
