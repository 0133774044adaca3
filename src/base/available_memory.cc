#include "base/available_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace bitpress {
namespace {

// Returns the number at the beginning of a file; nothing if there is none ("max", no file).
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the line "MemAvailable: N kB" of the system's table in bytes.
std::optional<uint64_t> SystemMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t number = 0;
  std::string unit;
  while (file >> name >> number) {
    std::getline(file, unit);
    if (name == "MemAvailable:") return number * 1024;
  }
  return std::nullopt;
}

// Returns the bytes of a control group's memory that hold files, which the system takes back first.
uint64_t CachedBytes(const std::string& folder, const std::string& prefix) {
  std::ifstream file(folder + "/memory.stat");
  std::string name;
  uint64_t number = 0;
  uint64_t cached = 0;
  while (file >> name >> number) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") cached += number;
  }
  return cached;
}

// Returns what is left of a control group's limit; nothing if there is none.
std::optional<uint64_t> Left(const std::string& folder, const char* limit_file,
                             const char* used_file, const char* prefix) {
  const std::optional<uint64_t> limit = NumberIn(folder + "/" + limit_file);
  const std::optional<uint64_t> used = NumberIn(folder + "/" + used_file);
  if (!limit || !used) return std::nullopt;
  const uint64_t held = *used - std::min(*used, CachedBytes(folder, prefix));
  return *limit - std::min(*limit, held);
}

// Returns what the control group has left, in either version of the interface.
std::optional<uint64_t> GroupMemory() {
  if (const auto left = Left("/sys/fs/cgroup", "memory.max", "memory.current", "")) return left;
  return Left("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_");
}

}  // namespace

std::optional<uint64_t> AvailableMemory() {
  const std::optional<uint64_t> system = SystemMemory();
  const std::optional<uint64_t> group = GroupMemory();
  if (system && group) return std::min(*system, *group);
  return system ? system : group;
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
