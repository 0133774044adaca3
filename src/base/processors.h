// The processors that this process may use, which in a container are fewer than the machine has.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bitpress {

// Returns how many threads can compute at once: the processors to which this process is bound (its
// affinity), but no more than the time that its control group gets. At least 1. Every default
// number of threads is this one.
size_t UsableProcessors();

// Returns the name of the first processor as its maker gives it; "" if the system does not tell.
std::string ProcessorName();

// Returns the instruction sets that the processor and the system have, as Linux names them; none if
// the system does not tell.
std::vector<std::string> InstructionSets();

// Returns whether an Arm processor has the products of the dot product extension.
bool HasArmDotProducts();

// Returns whether this process may use the tiles of AMX, which the processor has. The first call
// asks the system, because threads that use them need more room to be saved in.
bool MayUseTiles();

// Returns the processors that the control groups of a process pay for, rounded up: the least of its
// group's and of those around it. Nothing if there is no limit. See ControlGroups.
std::optional<size_t> ProcessorsOfGroups(const std::filesystem::path& own,
                                         const std::filesystem::path& root);

}  // namespace bitpress
