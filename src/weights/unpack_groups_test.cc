#include "weights/unpack_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "base/text.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"

namespace bitpress::weights {
namespace {

using testing::ElementsAre;

// Returns the values of a group as the body of the function computes them.
std::vector<float> Values(const GroupLookup& lookup, const std::vector<float>& table,
                          const std::vector<uint8_t>& bytes, const std::vector<uint8_t>& shifts) {
  std::vector<uint8_t> row = bytes;
  if (lookup.spare_bits > 0) {
    for (const uint8_t byte : bytes)
      row.push_back(static_cast<uint8_t>(byte >> (8 - lookup.spare_bits)));
  }
  row.insert(row.end(), shifts.begin(), shifts.end());
  const auto num_indexes = static_cast<size_t>(lookup.num_indexes);
  const auto columns = static_cast<size_t>(lookup.values_per_index);
  std::vector<float> values;
  for (size_t i = 0; i < num_indexes; ++i) {
    size_t index = lookup.weights.empty() ? row[i] : 0;
    for (size_t k = 0; k < row.size() && !lookup.weights.empty(); ++k) {
      index += size_t{row[k]} * lookup.weights[k * num_indexes + i];
    }
    for (size_t j = 0; j < columns; ++j) values.push_back(table.at(index * columns + j));
  }
  return values;
}

TEST(LookupOf, GivesTheValueOfEachCode) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const bool has_shifts : {false, true}) {
      if (has_shifts && !CanHaveShifts(bits)) continue;
      SCOPED_TRACE(fmt::format("{} bits, shifts {}", bits, has_shifts));
      std::vector<float> numbers;
      for (int code = 0; code < 1 << bits; ++code) {
        numbers.push_back(code == 1 ? -0.0F : static_cast<float>(code));
      }
      const GroupLookup lookup = LookupOf(bits, has_shifts);
      const std::vector<float> table = TableOf(lookup, bits, numbers);
      EXPECT_LE(table.size(), 4096u);
      for (int round = 0; round < 500; ++round) {
        std::vector<uint8_t> codes(static_cast<size_t>(lookup.num_codes()));
        for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % (1U << bits));
        std::vector<uint8_t> bytes(static_cast<size_t>(lookup.num_bytes));
        formats::PackCodes(codes, bits, bytes);
        std::vector<uint8_t> shifts(static_cast<size_t>(lookup.num_shifts));
        for (uint8_t& shift : shifts) shift = static_cast<uint8_t>(random() % 2);
        const std::vector<float> values = Values(lookup, table, bytes, shifts);
        ASSERT_EQ(values.size(), codes.size());
        for (size_t i = 0; i < codes.size(); ++i) {
          const float factor = has_shifts && shifts[i] == 1 ? 0.5F : 1;
          ASSERT_EQ(std::bit_cast<uint32_t>(values[i]),
                    std::bit_cast<uint32_t>(numbers[codes[i]] * factor));
        }
      }
    }
  }
}

std::vector<int64_t> Ints(const GroupShapes& shapes, const std::string& name) {
  for (const auto& [key, value] : shapes) {
    if (key == name) return std::get<std::vector<int64_t>>(value);
  }
  return {};
}

TEST(GroupShapesOf, BlocksInRowsAndColumns) {
  const auto rows = GroupShapesOf(formats::FindFormat("mx6"), {10, 48, 1});
  ASSERT_TRUE(rows);
  EXPECT_THAT(Ints(*rows, "groups"), ElementsAre(30, 2, 1, 5));
  EXPECT_THAT(Ints(*rows, "group_scales"), ElementsAre(30, 1, 1, 1));
  EXPECT_THAT(Ints(*rows, "sub_blocks"), ElementsAre(30, 8, 1, 1));
  EXPECT_THAT(Ints(*rows, "shift_groups"), ElementsAre(30, 2, 1, 8));
  const auto columns = GroupShapesOf(formats::FindFormat("mxfp4_e2m1"), {1, 64, 6});
  ASSERT_TRUE(columns);
  EXPECT_THAT(Ints(*columns, "groups"), ElementsAre(2, 32, 3, 1));
  EXPECT_THAT(Ints(*columns, "group_scales"), ElementsAre(2, 1, 3, 1, 2));
  EXPECT_EQ(columns->size(), 2u);
}

TEST(GroupShapesOf, NothingIfGroupsCrossTheEndOfABlock) {
  const auto spec = [](const char* name) { return formats::FindFormat(name); };
  EXPECT_FALSE(GroupShapesOf(spec("mx6"), {10, 40, 1}));        // a short last block
  EXPECT_FALSE(GroupShapesOf(spec("mx6"), {1, 48, 12}));        // rows of 12
  EXPECT_FALSE(GroupShapesOf(spec("mx9"), {4, 9, 8}));          // half a sub-block
  EXPECT_FALSE(GroupShapesOf(spec("mxfp6_e2m3"), {4, 27, 1}));  // a block of 27
  EXPECT_TRUE(GroupShapesOf(spec("mxfp8_e4m3"), {4, 27, 1}));
}

}  // namespace
}  // namespace bitpress::weights
