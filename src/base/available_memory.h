// The memory that this process has, and what it may still take without another one being pushed
// out.
#pragma once

#include <cstdint>
#include <optional>

namespace bitpress {

// Returns the number of bytes that the system, or the control group of this process if that is
// tighter, still has. Nothing if neither can be read.
std::optional<uint64_t> AvailableMemory();

// Returns the number of bytes of this process that are in memory (its resident set), without those
// that it has freed and its allocator keeps. Nothing if the system does not tell.
std::optional<uint64_t> ResidentMemory();

// Limits the memory that this process may allocate from now on. An allocation over the limit fails,
// where otherwise the system would kill a process, perhaps another one.
void LimitMemory(uint64_t num_bytes);

}  // namespace bitpress
