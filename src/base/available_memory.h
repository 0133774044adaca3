// The memory that this process has, and what it may still take without another one being pushed
// out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace bitpress {

// Returns the number of bytes that the system, or the control groups of this process if they are
// tighter, still have. Nothing if neither can be read.
std::optional<uint64_t> AvailableMemory();

// Returns what the tightest of a process's control groups has left; nothing if there is no limit.
// See ControlGroups.
std::optional<uint64_t> MemoryOfGroups(const std::filesystem::path& own,
                                       const std::filesystem::path& root);

// Returns the number of bytes of this process that are in memory (its resident set), without those
// that it has freed and its allocator keeps. Nothing if the system does not tell.
std::optional<uint64_t> ResidentMemory();

// Lets the allocator of this program keep large buffers. Buffers as large as a weight come and go
// with every weight. On Linux each would be mapped anew, and the system would clear its pages one
// by one, which is a third of the time to quantize a large model.
void KeepLargeBuffers();

// Limits the memory that this process may allocate from now on. An allocation over the limit fails,
// where otherwise the system would kill a process, perhaps another one.
void LimitMemory(uint64_t num_bytes);

}  // namespace bitpress
