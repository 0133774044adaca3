// The checksum of files of results.
#pragma once

#include <cstdint>
#include <string_view>

namespace bitpress {

// Returns the CRC-32C of the bytes (Castagnoli; RFC 3720, appendix B.4), with the processor's
// instruction for it if there is one. "123456789" gives 0xE3069283.
uint32_t Crc32c(std::string_view bytes);
// Returns the same without such an instruction.
uint32_t PortableCrc32c(std::string_view bytes);

// Returns whether the CRC-32C of the bytes is `checksum`. With BITPRESS_ANY_CHECKSUM, which is for
// fuzzing alone, it always is.
bool HasChecksum(std::string_view bytes, uint32_t checksum);

}  // namespace bitpress
