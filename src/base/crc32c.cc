#include "base/crc32c.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <array>
#include <cstddef>
#include <cstring>

namespace bitpress {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41 with its bits reversed

// kCrcTables[n][byte] is what a byte does to the checksum when n more bytes follow it. So eight
// bytes are taken at once, whose tables do not wait for each other.
constexpr size_t kCrcStep = 8;
using CrcTables = std::array<std::array<uint32_t, 256>, kCrcStep>;

constexpr CrcTables MakeCrcTables() {
  CrcTables tables = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][i] = crc;
  }
  for (size_t n = 1; n < kCrcStep; ++n) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[n - 1][i];
      tables[n][i] = before >> 8 ^ tables[0][before & 0xFFu];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = MakeCrcTables();

#ifdef __x86_64__
// Asks the processor itself, because not every compiler's library has __builtin_cpu_supports.
bool HasInstruction() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_2) != 0;
}

// Takes three cycles for eight bytes.
#ifdef __clang__
__attribute__((target("sse4.2,crc32")))
#else
__attribute__((target("sse4.2")))
#endif
uint32_t
InstructionCrc32c(std::string_view bytes) {
  uint64_t crc = ~0u;
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (const char byte : bytes) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(byte));
  }
  return ~rest;
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
#ifdef __x86_64__
  static const bool has_instruction = HasInstruction();
  if (has_instruction) return InstructionCrc32c(bytes);
#endif
  return PortableCrc32c(bytes);
}

uint32_t PortableCrc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  const auto byte_at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(bytes[i])}; };
  for (; bytes.size() >= kCrcStep; bytes.remove_prefix(kCrcStep)) {
    uint32_t next = 0;
    for (size_t i = 0; i < kCrcStep; ++i) {
      const uint32_t of_crc = i < sizeof(crc) ? crc >> (8 * i) & 0xFFu : 0;
      next ^= kCrcTables[kCrcStep - 1 - i][byte_at(i) ^ of_crc];
    }
    crc = next;
  }
  for (; !bytes.empty(); bytes.remove_prefix(1)) {
    crc = crc >> 8 ^ kCrcTables[0][(crc ^ byte_at(0)) & 0xFFu];
  }
  return ~crc;
}

bool HasChecksum(std::string_view bytes, uint32_t checksum) {
#ifdef BITPRESS_ANY_CHECKSUM
  static_cast<void>(bytes);
  static_cast<void>(checksum);
  return true;
#else
  return Crc32c(bytes) == checksum;
#endif
}

}  // namespace bitpress
