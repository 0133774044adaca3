#include "base/available_memory.h"
#include "base/paths.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/control_groups.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

// Returns the number at the beginning of a file; nothing if there is none ("max", no file).
std::optional<uint64_t> NumberIn(const fs::path& path) {
  std::ifstream file(SystemPath(path));
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the bytes of a control group's memory that hold files, which the system takes back first.
uint64_t CachedBytes(const fs::path& group, const std::string& prefix) {
  std::ifstream file(group / "memory.stat");
  std::string name;
  uint64_t number = 0;
  uint64_t cached = 0;
  while (file >> name >> number) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") cached += number;
  }
  return cached;
}

// Returns what is left of a control group's limit; nothing if there is none.
std::optional<uint64_t> Left(const fs::path& group, const char* limit_file, const char* used_file,
                             const char* prefix) {
  const std::optional<uint64_t> limit = NumberIn(group / limit_file);
  const std::optional<uint64_t> used = NumberIn(group / used_file);
  if (!limit || !used) return std::nullopt;
  const uint64_t held = *used - std::min(*used, CachedBytes(group, prefix));
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<uint64_t> MemoryOfGroups(const fs::path& own, const fs::path& root) {
  std::optional<uint64_t> least;
  for (const fs::path& group : ControlGroups("memory", own, root)) {
    std::optional<uint64_t> left = Left(group, "memory.max", "memory.current", "");
    if (!left) left = Left(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
    if (left) least = std::min(*left, least.value_or(*left));
  }
  return least;
}

}  // namespace bitpress
