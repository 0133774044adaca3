// Packing of codes of every width against a bit-by-bit oracle, and ONNX's order of nibbles.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "formats/pack.h"

namespace bitpress::formats {
namespace {

// Bit k of the stream is bit k % 8 of byte k / 8 and belongs to code k / bits.
std::vector<uint8_t> PackBitByBit(const std::vector<uint32_t>& codes, int bits) {
  std::vector<bool> stream;
  for (const uint32_t code : codes) {
    for (int bit = 0; bit < bits; ++bit) stream.push_back((code >> bit) % 2 == 1);
  }
  while (stream.size() % 8 != 0) stream.push_back(false);
  std::vector<uint8_t> bytes(stream.size() / 8);
  for (size_t k = 0; k < stream.size(); ++k) {
    if (stream[k]) bytes[k / 8] = static_cast<uint8_t>(bytes[k / 8] + (1 << (k % 8)));
  }
  return bytes;
}

TEST(Pack, EveryWidthAndLengthEqualsTheBitStream) {
  std::mt19937 generator(3);
  for (int bits = 1; bits <= 32; ++bits) {
    const uint32_t mask = bits == 32 ? 0xFFFFFFFFu : (1u << bits) - 1;
    for (size_t length = 0; length <= 40; ++length) {
      SCOPED_TRACE(testing::Message() << bits << " bits, " << length << " codes");
      std::vector<uint32_t> codes(length);
      for (uint32_t& code : codes) code = static_cast<uint32_t>(generator()) & mask;
      const std::vector<uint8_t> expected = PackBitByBit(codes, bits);
      ASSERT_EQ(PackedBytes(length, bits), expected.size());
      std::vector<uint8_t> packed(expected.size(), 0xA5);
      PackCodes(codes, bits, packed);
      ASSERT_EQ(packed, expected);
      std::vector<uint32_t> unpacked(length, 0xDEADBEEF);
      UnpackCodes(packed, bits, unpacked);
      ASSERT_EQ(unpacked, codes);
    }
  }
}

TEST(Pack, OnlyTheLowBitsOfACodeCount) {
  for (int bits = 1; bits < 32; ++bits) {
    const std::vector<uint32_t> codes = {0xFFFFFFFF, 0, 0xFFFFFFFF, 0, 1};
    std::vector<uint32_t> clean = codes;
    for (uint32_t& code : clean) code &= (1u << bits) - 1;
    std::vector<uint8_t> packed(PackedBytes(codes.size(), bits));
    PackCodes(codes, bits, packed);
    EXPECT_EQ(packed, PackBitByBit(clean, bits)) << bits;
  }
}

TEST(Pack, UnusedBitsOfTheLastByteDoNotReachTheCodes) {
  const std::vector<uint8_t> packed = {0x21, 0xF3};
  std::vector<uint32_t> codes(3);
  UnpackCodes(packed, 4, codes);
  EXPECT_EQ(codes, (std::vector<uint32_t>{1, 2, 3}));
}

// ONNX, TensorProto.int32_data for INT4: the first element in the low four bits of the byte.
TEST(Pack, NibblesLieInTheOrderOfOnnx) {
  std::vector<uint8_t> packed(2);
  PackCodes(std::vector<uint32_t>{0x1, 0x2, 0xF}, 4, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0x21, 0x0F}));
}

TEST(Pack, FourSixBitCodesTakeThreeBytes) {
  std::vector<uint8_t> packed(3);
  PackCodes(std::vector<uint32_t>{0x3F, 0, 0x3F, 0}, 6, packed);
  EXPECT_EQ(packed, (std::vector<uint8_t>{0x3F, 0xF0, 0x03}));
}

}  // namespace
}  // namespace bitpress::formats
