#include "base/available_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/control_groups.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

// Returns the number at the beginning of a file; nothing if there is none ("max", no file).
std::optional<uint64_t> NumberIn(const fs::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the line "NAME: N kB" of a table of the system in bytes.
std::optional<uint64_t> BytesInTable(const char* table, std::string_view wanted) {
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t number = 0;
    if (words >> name >> number && name == wanted) return number * 1024;
  }
  return std::nullopt;
}

std::optional<uint64_t> SystemMemory() { return BytesInTable("/proc/meminfo", "MemAvailable:"); }

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

std::optional<uint64_t> AvailableMemory() {
  const std::optional<uint64_t> system = SystemMemory();
  const std::optional<uint64_t> group = MemoryOfGroups("/proc/self/cgroup", "/sys/fs/cgroup");
  if (system && group) return std::min(*system, *group);
  return system ? system : group;
}

std::optional<uint64_t> ResidentMemory() {
  ::malloc_trim(0);
  return BytesInTable("/proc/self/status", "VmRSS:");
}

void LimitMemory([[maybe_unused]] uint64_t num_bytes) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve much memory
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, num_bytes);
  ::setrlimit(RLIMIT_DATA, &limit);
#endif
}

}  // namespace bitpress
