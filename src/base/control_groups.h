// The control groups of a process, which bound what a container may use.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace bitpress {

// Returns the folders of a process's groups for a controller ("cpu", "memory"): its own group and
// those around it, in either version of the interface. They need not exist: in a container the path
// may be one of the host. `own` lists the groups of the process as /proc/self/cgroup does, `root`
// is where the groups are, such as /sys/fs/cgroup.
std::vector<std::filesystem::path> ControlGroups(std::string_view controller,
                                                 const std::filesystem::path& own,
                                                 const std::filesystem::path& root);

}  // namespace bitpress
