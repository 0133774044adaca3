// The layout of packed codes against the rule written out bit by bit, for every width.
#include "formats/pack.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace bitpress::formats {
namespace {

// Returns the place of bit k of code i in its group as the number of a bit: byte * 8 + bit. It is
// written from the rule alone and lists the places one by one.
std::vector<std::vector<size_t>> PlacesOfBits(size_t bits) {
  const size_t common = std::gcd(bits, size_t{8});
  const size_t num_bytes = bits / common;
  const size_t per_byte = 8 / bits;
  std::vector<std::vector<size_t>> codes;
  for (size_t byte = 0; byte < num_bytes; ++byte) {
    for (size_t code = 0; code < per_byte; ++code) {
      codes.emplace_back();
      for (size_t bit = 0; bit < bits; ++bit) {
        codes.back().push_back(byte * 8 + code * bits + bit);
      }
    }
  }
  std::vector<size_t> spare;
  for (size_t byte = 0; byte < num_bytes; ++byte) {
    for (size_t bit = per_byte * bits; bit < 8; ++bit) spare.push_back(byte * 8 + bit);
  }
  for (size_t first = 0; first < spare.size(); first += bits) {
    codes.emplace_back(spare.begin() + static_cast<std::ptrdiff_t>(first),
                       spare.begin() + static_cast<std::ptrdiff_t>(first + bits));
  }
  EXPECT_EQ(codes.size(), 8 / common);
  return codes;
}

std::vector<uint8_t> PackBitByBit(const std::vector<uint8_t>& codes, int width) {
  const size_t bits = static_cast<size_t>(width);
  const std::vector<std::vector<size_t>> places = PlacesOfBits(bits);
  const size_t group_bytes = places.size() * bits / 8;
  const size_t num_groups = (codes.size() + places.size() - 1) / places.size();
  std::vector<uint8_t> bytes(num_groups * group_bytes);
  for (size_t i = 0; i < codes.size(); ++i) {
    for (size_t bit = 0; bit < bits; ++bit) {
      const size_t place = places[i % places.size()][bit];
      const size_t byte = i / places.size() * group_bytes + place / 8;
      bytes[byte] = static_cast<uint8_t>(bytes[byte] | (codes[i] >> bit & 1) << place % 8);
    }
  }
  return bytes;
}

TEST(Pack, OneCodeIsFoundInItsPlace) {
  std::mt19937 generator(4);
  for (int bits = 1; bits <= 8; ++bits) {
    for (const size_t length : {size_t{1}, size_t{8}, size_t{41}}) {
      std::vector<uint8_t> codes(length);
      for (uint8_t& code : codes) {
        code = static_cast<uint8_t>(static_cast<uint32_t>(generator()) & ((1u << bits) - 1));
      }
      const std::vector<uint8_t> packed = PackBitByBit(codes, bits);
      for (size_t i = 0; i < length; ++i) EXPECT_EQ(CodeAt(packed, bits, i), codes[i]) << bits;
    }
  }
}

TEST(Pack, EveryWidthAndLengthFollowsTheRule) {
  std::mt19937 generator(3);
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t length = 0; length <= 40; ++length) {
      SCOPED_TRACE(testing::Message() << bits << " bits, " << length << " codes");
      std::vector<uint8_t> codes(length);
      for (uint8_t& code : codes) code = static_cast<uint8_t>(generator() & ((1u << bits) - 1));
      const std::vector<uint8_t> expected = PackBitByBit(codes, bits);
      ASSERT_EQ(PackedBytes(length, bits), expected.size());
      std::vector<uint8_t> packed(expected.size(), 0xA5);
      PackCodes(codes, bits, packed);
      ASSERT_EQ(packed, expected);
      std::vector<uint8_t> unpacked(length, 0xEE);
      UnpackCodes(packed, bits, unpacked);
      ASSERT_EQ(unpacked, codes);
    }
  }
}

// Tries all sequences of up to two bytes of codes. No two share their bytes, and none leaks into
// another's place.
TEST(Pack, AllShortSequencesComeBack) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t length = 1; length * static_cast<size_t>(bits) <= 16; ++length) {
      const size_t num_bits = length * static_cast<size_t>(bits);
      for (uint32_t pattern = 0; pattern < 1u << num_bits; ++pattern) {
        std::vector<uint8_t> codes(length), unpacked(length);
        for (size_t i = 0; i < length; ++i) {
          codes[i] =
              static_cast<uint8_t>(pattern >> (i * static_cast<size_t>(bits)) & ((1u << bits) - 1));
        }
        std::vector<uint8_t> packed(PackedBytes(length, bits));
        PackCodes(codes, bits, packed);
        UnpackCodes(packed, bits, unpacked);
        ASSERT_EQ(unpacked, codes) << bits << " bits, pattern " << pattern;
      }
    }
  }
}

TEST(Pack, EveryBitOfAGroupBelongsToOneCode) {
  for (int bits = 1; bits <= 8; ++bits) {
    const PackGroup group = PackGroupOf(bits);
    EXPECT_EQ(group.num_codes * static_cast<size_t>(bits), group.num_bytes * 8);
    std::vector<int> seen(group.num_bytes * 8);
    for (const std::vector<size_t>& code : PlacesOfBits(static_cast<size_t>(bits))) {
      for (const size_t place : code) ++seen[place];
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << bits;
  }
}

TEST(Pack, OnlyTheLowBitsOfACodeCount) {
  for (int bits = 1; bits < 8; ++bits) {
    const std::vector<uint8_t> codes = {0xFF, 0, 0xFF, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF};
    std::vector<uint8_t> clean = codes;
    for (uint8_t& code : clean) code = static_cast<uint8_t>(code & ((1u << bits) - 1));
    std::vector<uint8_t> packed(PackedBytes(codes.size(), bits));
    PackCodes(codes, bits, packed);
    EXPECT_EQ(packed, PackBitByBit(clean, bits)) << bits;
  }
}

TEST(Pack, PaddingDoesNotReachTheCodes) {
  const std::vector<uint8_t> packed = {0x21, 0xF3};
  std::vector<uint8_t> codes(3);
  UnpackCodes(packed, 4, codes);
  EXPECT_EQ(codes, (std::vector<uint8_t>{1, 2, 3}));
}

TEST(Pack, SizesDoNotOverflow) {
  EXPECT_EQ(PackedBytes(SIZE_MAX, 8), SIZE_MAX);
  EXPECT_EQ(PackedBytes(SIZE_MAX, 4), SIZE_MAX / 2 + 1);
}

// ONNX, TensorProto.int32_data for INT4: the first element in the low four bits of the byte.
TEST(Pack, NibblesLieInTheOrderOfOnnx) {
  std::vector<uint8_t> packed(2);
  PackCodes(std::vector<uint8_t>{0x1, 0x2, 0xF}, 4, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0x21, 0x0F}));
}

TEST(Pack, FourSixBitCodesTakeThreeBytes) {
  std::vector<uint8_t> packed(3);
  PackCodes(std::vector<uint8_t>{0x01, 0x02, 0x03, 0b110110}, 6, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0b10'000001, 0b01'000010, 0b11'000011}));
}

TEST(Pack, EightThreeBitCodesTakeThreeBytes) {
  std::vector<uint8_t> packed(3);
  PackCodes(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 0b101, 0b110}, 3, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0b01'010'001, 0b01'100'011, 0b11'110'101}));
}

}  // namespace
}  // namespace bitpress::formats
