#include "interop/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace bitpress::interop {
namespace {

// Files of this format are little-endian.
uint16_t Word(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | static_cast<unsigned>(bytes[1]) << 8U);
}
float Half(const uint8_t* bytes) { return FloatOfHalf(Word(bytes)); }

// The sum of offset and what codes around 0 leave out is rounded once.
float Moved(float scale, int middle, double offset) {
  return static_cast<float>(double{scale} * middle + offset);
}

// Decodes 16 bytes that hold elements i and i + 16 in the low and the high half of byte i.
template <typename Code>
void Nibbles(const uint8_t* bytes, int16_t* codes, const Code& code) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = static_cast<int16_t>(code(bytes[i] & 15, i));
    codes[i + 16] = static_cast<int16_t>(code(bytes[i] >> 4, i + 16));
  }
}

void DecodeQ4_0(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  scales[0] = Half(bytes);
  Nibbles(bytes + 2, codes, [](int nibble, int) { return nibble - 8; });
}

void DecodeQ4_1(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) {
  scales[0] = Half(bytes);
  offsets[0] = Moved(scales[0], 8, Half(bytes + 2));
  Nibbles(bytes + 4, codes, [](int nibble, int) { return nibble - 8; });
}

// Five bits, the highest of which lie in 4 bytes of their own.
void FiveBits(const uint8_t* bytes, int16_t* codes) {
  Nibbles(bytes + 4, codes,
          [&](int nibble, int i) { return (nibble | (bytes[i / 8] >> (i % 8) & 1) << 4) - 16; });
}

void DecodeQ5_0(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  scales[0] = Half(bytes);
  FiveBits(bytes + 2, codes);
}

void DecodeQ5_1(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) {
  scales[0] = Half(bytes);
  offsets[0] = Moved(scales[0], 16, Half(bytes + 2));
  FiveBits(bytes + 4, codes);
}

void DecodeQ8_0(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  scales[0] = Half(bytes);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<int8_t>(bytes[2 + i]);
}

// The nearest of 16 numbers that a 4-bit index chooses.
constexpr std::array<int16_t, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

void DecodeIQ4_NL(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  scales[0] = Half(bytes);
  Nibbles(bytes + 2, codes,
          [](int nibble, int) { return kNonLinear[static_cast<size_t>(nibble)]; });
}

void DecodeIQ4_XS(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  const float all = Half(bytes);
  const unsigned high = Word(bytes + 2);
  for (int block = 0; block < 8; ++block) {
    const int low = bytes[4 + block / 2] >> (block % 2 * 4) & 15;
    const int step = low | static_cast<int>(high >> (2U * static_cast<unsigned>(block)) & 3U) << 4;
    scales[block] = all * static_cast<float>(step - 32);
    Nibbles(bytes + 8 + 16 * block, codes + 32 * block,
            [](int nibble, int) { return kNonLinear[static_cast<size_t>(nibble)]; });
  }
}

// The scale is that of one half.
void DecodeMxfp4(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  scales[0] = std::ldexp(1.0F, static_cast<int>(bytes[0]) - 128);
  Nibbles(bytes + 1, codes,
          [](int nibble, int) { return kE2M1Halves[static_cast<size_t>(nibble)]; });
}

// Element `i` of 256 has two bits in byte i % 32 of its half, the first 32 the lowest ones.
int TwoBits(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void DecodeQ2_K(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) {
  const float scale = Half(bytes + 80), least = Half(bytes + 82);
  for (int block = 0; block < 16; ++block) {
    scales[block] = scale * static_cast<float>(bytes[block] & 15);
    offsets[block] =
        Moved(scales[block], 2, -double{least * static_cast<float>(bytes[block] >> 4)});
  }
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<int16_t>(TwoBits(bytes + 16, i) - 2);
}

void DecodeQ3_K(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  const uint8_t* const steps = bytes + 96;
  const float scale = Half(bytes + 108);
  for (int block = 0; block < 16; ++block) {
    const int low = block < 8 ? steps[block] & 15 : steps[block - 8] >> 4;
    const int high = steps[8 + block % 4] >> (block / 4 * 2) & 3;
    scales[block] = scale * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int high = bytes[i % 32] >> (i / 32) & 1;
    codes[i] = static_cast<int16_t>(TwoBits(bytes + 32, i) - (high == 0 ? 4 : 0));
  }
}

// Six bits for the scale and six for the offset of each of 8 blocks lie in 12 bytes.
void SixBits(const uint8_t* bytes, int block, int& scale, int& least) {
  if (block < 4) {
    scale = bytes[block] & 63;
    least = bytes[block + 4] & 63;
    return;
  }
  scale = (bytes[block + 4] & 15) | bytes[block - 4] >> 6 << 4;
  least = bytes[block + 4] >> 4 | bytes[block] >> 6 << 4;
}

void ScalesOfK(const uint8_t* bytes, int middle, float* scales, float* offsets) {
  for (int block = 0; block < 8; ++block) {
    int scale = 0, least = 0;
    SixBits(bytes + 4, block, scale, least);
    scales[block] = Half(bytes) * static_cast<float>(scale);
    offsets[block] =
        Moved(scales[block], middle, -double{Half(bytes + 2) * static_cast<float>(least)});
  }
}

// Element i of 256 has half a byte: 32 low halves, then the high ones of the same bytes.
int HalfByte(const uint8_t* bytes, int i) {
  return bytes[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

void DecodeQ4_K(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) {
  ScalesOfK(bytes, 8, scales, offsets);
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<int16_t>(HalfByte(bytes + 16, i) - 8);
}

void DecodeQ5_K(const uint8_t* bytes, int16_t* codes, float* scales, float* offsets) {
  ScalesOfK(bytes, 16, scales, offsets);
  for (int i = 0; i < 256; ++i) {
    const int high = bytes[16 + i % 32] >> (i / 32) & 1;
    codes[i] = static_cast<int16_t>((HalfByte(bytes + 48, i) | high << 4) - 16);
  }
}

void DecodeQ6_K(const uint8_t* bytes, int16_t* codes, float* scales, float*) {
  const uint8_t* const high = bytes + 128;
  for (int block = 0; block < 16; ++block) {
    scales[block] = Half(bytes + 208) * static_cast<float>(static_cast<int8_t>(bytes[192 + block]));
  }
  for (int i = 0; i < 256; ++i) {
    const int part = i % 128 / 32;  // of 128 elements, which share 64 bytes of low bits
    const int low = bytes[i / 128 * 64 + i % 64] >> (part / 2 * 4) & 15;
    codes[i] = static_cast<int16_t>((low | TwoBits(high, i) << 4) - 32);
  }
}

// The numbers of the types are those of ggml's enumeration.
constexpr std::array<BlockType, 13> kTypes = {{
    {2, "Q4_0", 32, 18, 32, "int4", false, DecodeQ4_0},
    {3, "Q4_1", 32, 20, 32, "int4", true, DecodeQ4_1},
    {6, "Q5_0", 32, 22, 32, "int8", false, DecodeQ5_0},
    {7, "Q5_1", 32, 24, 32, "int8", true, DecodeQ5_1},
    {8, "Q8_0", 32, 34, 32, "int8", false, DecodeQ8_0},
    {10, "Q2_K", 256, 84, 16, "int4", true, DecodeQ2_K},
    {11, "Q3_K", 256, 110, 16, "int4", false, DecodeQ3_K},
    {12, "Q4_K", 256, 144, 32, "int4", true, DecodeQ4_K},
    {13, "Q5_K", 256, 176, 32, "int8", true, DecodeQ5_K},
    {14, "Q6_K", 256, 210, 16, "int8", false, DecodeQ6_K},
    {20, "IQ4_NL", 32, 18, 32, "int8", false, DecodeIQ4_NL},
    {23, "IQ4_XS", 256, 136, 32, "int8", false, DecodeIQ4_XS},
    {39, "MXFP4", 32, 17, 32, "mxfp4_e2m1", false, DecodeMxfp4},
}};

}  // namespace

std::span<const BlockType> AllBlockTypes() { return kTypes; }

const BlockType* FindBlockType(uint32_t id) {
  const auto found = std::ranges::find(kTypes, id, &BlockType::id);
  return found == kTypes.end() ? nullptr : &*found;
}

FileWeight DecodeBlocks(const BlockType& type, std::span<const std::byte> bytes, int64_t num_rows,
                        int64_t row_length) {
  BITPRESS_DCHECK(row_length % type.num_elements == 0);
  FileWeight weight;
  weight.type = type.name;
  weight.format = type.format;
  weight.num_rows = num_rows;
  weight.row_length = row_length;
  weight.block_size = type.block_size;
  const auto num_elements = static_cast<size_t>(num_rows * row_length);
  const size_t num_scales = num_elements / static_cast<size_t>(type.block_size);
  weight.codes.resize(num_elements);
  weight.scales.resize(num_scales);
  if (type.has_offsets) weight.offsets.resize(num_scales);
  const int64_t num_blocks = num_rows * row_length / type.num_elements;
  BITPRESS_DCHECK(bytes.size() == static_cast<size_t>(num_blocks * type.num_bytes));
  const int64_t scales_each = type.num_elements / type.block_size;
  for (int64_t block = 0; block < num_blocks; ++block) {
    float* const offsets = type.has_offsets ? weight.offsets.data() + block * scales_each : nullptr;
    type.decode(reinterpret_cast<const uint8_t*>(bytes.data()) + block * type.num_bytes,
                weight.codes.data() + block * type.num_elements,
                weight.scales.data() + block * scales_each, offsets);
  }
  return weight;
}

}  // namespace bitpress::interop
