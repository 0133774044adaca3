#include "base/available_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace bitpress {
namespace {

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

}  // namespace

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

void KeepLargeBuffers() {
  constexpr int kLargestKept = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kLargestKept);
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
