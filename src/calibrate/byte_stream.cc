#include "calibrate/byte_stream.h"

#include <array>

#include "formats/float_bits.h"

namespace bitpress::calibrate {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41 with its bits reversed

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFu];
  }
  return ~crc;
}

void FailDamaged(std::string_view what) {
  Fail(ErrorCode::kInvalidArgument, "the calibration file is damaged: {}", what);
}

void ByteWriter::Wide(UInt128 number) {
  Number(static_cast<uint64_t>(number));
  Number(static_cast<uint64_t>(number >> 64));
}

void ByteWriter::Compact(uint64_t number) {
  constexpr uint64_t kMore = 0x80;
  for (; number >= kMore; number >>= 7) {
    bytes_.push_back(static_cast<char>((number & (kMore - 1)) | kMore));
  }
  bytes_.push_back(static_cast<char>(number));
}

void ByteWriter::Text(std::string_view text) {
  Compact(text.size());
  bytes_ += text;
}

void ByteWriter::Float(float x) { Number(formats::FloatBits(x)); }

void ByteWriter::Sum(const ExactSum& sum) {
  for (const uint64_t word : sum.words()) Number(word);
}

std::string_view ByteReader::Take(size_t count) {
  if (count > bytes_.size()) FailDamaged("it ends too early");
  const std::string_view part = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return part;
}

UInt128 ByteReader::Wide() {
  const auto low = Number<uint64_t>();
  return UInt128{Number<uint64_t>()} << 64 | low;
}

uint64_t ByteReader::Compact() {
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = Number<uint8_t>();
    const uint64_t part = byte & 0x7Fu;
    if (shift == 63 && part > 1) break;
    number |= part << shift;
    if ((byte & 0x80u) != 0) continue;
    if (byte == 0 && shift > 0) break;
    return number;
  }
  FailDamaged("a number is not in its form");
}

std::string ByteReader::Text() { return std::string(Take(Count(1))); }

float ByteReader::Float() { return formats::FloatFromBits(Number<uint32_t>()); }

ExactSum ByteReader::Sum() {
  std::array<uint64_t, ExactSum::kNumWords> words;
  for (uint64_t& word : words) word = Number<uint64_t>();
  return ExactSum::FromWords(words);
}

size_t ByteReader::Count(size_t least_bytes) {
  const uint64_t count = Compact();
  if (count > num_left() / least_bytes) FailDamaged("it holds less than it says");
  return static_cast<size_t>(count);
}

}  // namespace bitpress::calibrate
