// Little-endian numbers in and out of bytes, and the frame of the files that keep what was measured
// or learned: a magic word, the version of the format, the content, and a checksum of all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/exact_sum.h"

namespace bitpress {

class ByteWriter {
 public:
  template <typename T>
  void Number(T number) {
    char bytes[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes[i] = static_cast<char>(static_cast<uint64_t>(number) >> (8 * i) & 0xFFu);
    }
    bytes_.append(bytes, sizeof(T));
  }
  void Wide(UInt128 number);
  // Writes seven bits a byte, lowest first. The highest bit of a byte says that more follow.
  void Compact(uint64_t number);
  void Text(std::string_view text);  // writes its length, compact, and the bytes
  void Float(float x);
  void Sum(const ExactSum& sum);

  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// A reader of such bytes. Every function throws Error(kInvalidArgument) at the end of the bytes.
class ByteReader {
 public:
  // `kind` names what the bytes are, for messages: "calibration file". It must outlive the reader.
  ByteReader(std::string_view bytes, std::string_view kind) : bytes_(bytes), kind_(kind) {}

  template <typename T>
  T Number() {
    uint64_t number = 0;
    const std::string_view part = Take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i) {
      number |= uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
    }
    return static_cast<T>(number);
  }
  UInt128 Wide();
  uint64_t Compact();  // throws unless the number has its shortest form
  std::string Text();
  float Float();
  ExactSum Sum();
  // Reads the number of things that take at least `least_bytes` each. Throws if more are announced
  // than bytes can follow.
  size_t Count(size_t least_bytes);

  // Takes so many bytes, which stay where they are.
  std::string_view Take(size_t count);

  size_t num_left() const { return bytes_.size(); }
  // Throws the Error(kInvalidArgument) of damaged bytes, unless nothing is left.
  void ExpectEnd() const;
  [[noreturn]] void FailDamaged(std::string_view why) const;

 private:
  std::string_view bytes_;
  std::string_view kind_;
};

// A format of files.
struct FileFormat {
  std::string_view magic;  // the first bytes
  std::string_view kind;   // "calibration file"
  uint32_t version;        // of the files that this program writes; it reads all versions up to it
};

// Returns a writer for the content, which follows the frame's first part.
ByteWriter BeginFile(const FileFormat& format);
// Returns the whole file.
std::string EndFile(ByteWriter&& writer);
// Returns a reader of the content. `bytes` may come from anywhere and must outlive it. Throws
// Error(kInvalidArgument) if they are no such file, of a newer version, or damaged.
ByteReader OpenFile(std::string_view bytes, const FileFormat& format);
// Returns whether a file starts as the format's files do, and false if it cannot be read.
bool HasFormat(const std::filesystem::path& path, const FileFormat& format);

}  // namespace bitpress
