#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"

namespace bitpress {

namespace fs = std::filesystem;

std::vector<fs::path> ControlGroups(std::string_view controller, const fs::path& own,
                                    const fs::path& root) {
  std::vector<fs::path> folders;
  std::ifstream file(own);
  for (std::string line; std::getline(file, line);) {
    // "0::/outer/inner" of version 2, "4:cpu,cpuacct:/outer/inner" of version 1
    const std::vector<std::string> parts = Split(line, ':');
    if (parts.size() < 3) continue;
    const std::vector<std::string> controllers = Split(parts[1], ',');
    const bool is_first_version = std::ranges::find(controllers, controller) != controllers.end();
    if (!is_first_version && !parts[1].empty()) continue;
    const fs::path top = is_first_version ? root / parts[1] : root;
    for (fs::path group = fs::path(parts[2]).relative_path(); !group.empty();
         group = group.parent_path()) {
      folders.push_back(top / group);
    }
    folders.push_back(top);
  }
  folders.push_back(root);
  folders.push_back(root / controller);
  return folders;
}

}  // namespace bitpress
