// The processors that this process may use, which in a container are fewer than the machine has.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace bitpress {

// Returns how many threads can compute at once: the processors to which this process is bound (its
// affinity), but no more than the time that its control group gets. At least 1. Every default
// number of threads is this one.
size_t UsableProcessors();

// Returns the processors that the control groups of a process pay for, rounded up: the least of its
// group's and of those around it. Nothing if there is no limit. See ControlGroups.
std::optional<size_t> ProcessorsOfGroups(const std::filesystem::path& own,
                                         const std::filesystem::path& root);

}  // namespace bitpress
