#include "weights/native_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bitpress::weights {
namespace {

using testing::ElementsAre;

std::vector<int> Numbers(const std::vector<std::byte>& bytes) {
  std::vector<int> numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

TEST(PackRows, RowsBeginAtTheStride) {
  const auto code = [](int64_t row, int64_t i) { return row * 4 + i; };
  EXPECT_THAT(Numbers(PackRows(4, 2, 3, 4, code)), ElementsAre(0x10, 0x02, 0x54, 0x06));
  EXPECT_THAT(Numbers(PackRows(4, 2, 3, 3, code)), ElementsAre(0x10, 0x42, 0x65));
  EXPECT_THAT(Numbers(PackRows(8, 2, 2, 2, code)), ElementsAre(0, 1, 4, 5));
  const auto minus_one = [](int64_t, int64_t) { return -1; };
  EXPECT_THAT(Numbers(PackRows(2, 1, 3, 4, minus_one)), ElementsAre(0x3F));
}

TEST(NativeForm, ShapesOfMatMulNBits) {
  const NativeForm form{.bits = 4,
                        .num_rows = 3,
                        .row_length = 40,
                        .block_size = 16,
                        .has_zero_points = true,
                        .is_matmul = true};
  EXPECT_EQ(form.code_type(), DataType::kUInt8);
  EXPECT_THAT(form.code_dims(), ElementsAre(3, 3, 8));
  EXPECT_THAT(form.scale_dims(), ElementsAre(9));
  EXPECT_THAT(form.zero_point_dims(), ElementsAre(6));
  EXPECT_EQ(form.middle(), 8);
  EXPECT_EQ(form.format(), "uint4");
}

TEST(NativeForm, ShapesOfTables) {
  NativeForm form{.bits = 4,
                  .num_rows = 3,
                  .row_length = 41,
                  .block_size = 16,
                  .has_zero_points = false,
                  .is_matmul = false};
  EXPECT_EQ(form.code_type(), DataType::kInt4);
  EXPECT_THAT(form.code_dims(), ElementsAre(3, 41));
  EXPECT_THAT(form.scale_dims(), ElementsAre(3, 3));
  EXPECT_EQ(form.middle(), 0);
  EXPECT_EQ(form.format(), "int4");
  form.has_zero_points = true;
  EXPECT_EQ(form.code_type(), DataType::kUInt4);
  EXPECT_THAT(form.zero_point_dims(), ElementsAre(3, 3));
  form.bits = 2;
  form.row_length = 40;
  EXPECT_EQ(form.code_type(), DataType::kUInt8);
  EXPECT_THAT(form.code_dims(), ElementsAre(3, 10));
  EXPECT_THAT(form.zero_point_dims(), ElementsAre(3, 1));
}

TEST(PackRows, ThreeBitsFillGroups) {
  std::vector<uint8_t> codes;
  for (uint8_t i = 0; i < 9 * 16; ++i) codes.push_back(i * 5 % 8);
  const std::vector<std::byte> rows =
      PackRows(3, 9, 16, 16, [&](int64_t row, int64_t i) { return codes[size_t(row * 16 + i)]; });
  std::vector<uint8_t> expected(formats::PackedBytes(codes.size(), 3));
  formats::PackCodes(codes, 3, expected);
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(std::to_integer<int>(rows[i]), expected[i]);
}

TEST(NativeForm, ThreeBitsInTheFileAreFourOfTheOperator) {
  NativeForm form{.bits = 4, .num_rows = 3, .row_length = 40, .block_size = 16, .is_widened = true};
  EXPECT_THAT(form.code_dims(), ElementsAre(3, 3, 8));
  EXPECT_THAT(form.stored_dims(), ElementsAre(18, 3));  // 3 rows of 48 codes
  EXPECT_EQ(form.middle(), 4);
  EXPECT_EQ(form.format(), "int3");
  form.has_zero_points = true;
  EXPECT_THAT(form.zero_point_dims(), ElementsAre(6));
  EXPECT_EQ(form.format(), "uint3");
}

TEST(DecodeNative, TurnsProductsAround) {
  NativeForm form{.bits = 8,
                  .num_rows = 2,
                  .row_length = 3,
                  .block_size = 16,
                  .has_zero_points = false,
                  .is_matmul = true};
  std::vector<uint8_t> codes(32);
  codes[0] = 129;
  codes[1] = 126;
  codes[2] = 128;
  codes[16] = 0;
  codes[17] = 255;
  codes[18] = 130;
  const std::vector<float> scales{2, 0.5F};
  std::vector<float> y(6);
  ThreadPool pool(2);
  const auto decode = [&] {
    DecodeNative(form, std::as_bytes(std::span(codes)), std::as_bytes(std::span(scales)), {}, y,
                 pool);
  };
  decode();
  EXPECT_THAT(y, ElementsAre(2, -64, -4, 63.5F, 0, 1));
}

}  // namespace
}  // namespace bitpress::weights
