#include "base/byte_stream.h"
#include "base/paths.h"

#include <array>
#include <bit>
#include <fstream>

#include "base/version.h"

namespace bitpress {
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

void ByteWriter::Float(float x) { Number(std::bit_cast<uint32_t>(x)); }

void ByteWriter::Sum(const ExactSum& sum) {
  for (const uint64_t word : sum.words()) Number(word);
}

void ByteReader::FailDamaged(std::string_view why) const {
  Fail(ErrorCode::kInvalidArgument, "the {} is damaged: {}", kind_, why);
}

void ByteReader::ExpectEnd() const {
  if (num_left() > 0) FailDamaged("more follows after its end");
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
  FailDamaged("malformed number");
}

std::string ByteReader::Text() { return std::string(Take(Count(1))); }

float ByteReader::Float() { return std::bit_cast<float>(Number<uint32_t>()); }

ExactSum ByteReader::Sum() {
  std::array<uint64_t, ExactSum::kNumWords> words;
  for (uint64_t& word : words) word = Number<uint64_t>();
  return ExactSum::FromWords(words);
}

size_t ByteReader::Count(size_t least_bytes) {
  const uint64_t count = Compact();
  if (count > num_left() / least_bytes) FailDamaged("it ends before the count that it states");
  return static_cast<size_t>(count);
}

ByteWriter BeginFile(const FileFormat& format) {
  ByteWriter writer;
  writer.bytes() = format.magic;
  writer.Number(format.version);
  return writer;
}

std::string EndFile(ByteWriter&& writer) {
  writer.Number(Crc32c(writer.bytes()));
  return std::move(writer.bytes());
}

ByteReader OpenFile(std::string_view bytes, const FileFormat& format) {
  if (!bytes.starts_with(format.magic)) {
    Fail(ErrorCode::kInvalidArgument, "this is no {}: it does not start with '{}'", format.kind,
         format.magic);
  }
  // The version comes before the checksum, because a newer version may have another checksum.
  ByteReader reader(bytes.substr(format.magic.size()), format.kind);
  CheckFormatVersion(format.kind, reader.Number<uint32_t>(), format.version);
  constexpr size_t kChecksumBytes = 4;
  if (reader.num_left() < kChecksumBytes) reader.FailDamaged("it ends too early");
  const size_t size = bytes.size() - kChecksumBytes;
  const auto checksum = ByteReader(bytes.substr(size), format.kind).Number<uint32_t>();
  if (!HasChecksum(bytes.substr(0, size), checksum)) {
    reader.FailDamaged("checksum mismatch");
  }
  const size_t begin = bytes.size() - reader.num_left();
  return {bytes.substr(begin, size - begin), format.kind};
}

bool HasFormat(const std::filesystem::path& path, const FileFormat& format) {
  std::ifstream file(SystemPath(path), std::ios::binary);
  std::string start(format.magic.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file.gcount() == static_cast<std::streamsize>(start.size()) && start == format.magic;
}

}  // namespace bitpress
