#include "base/processors.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/text.h"

namespace bitpress {
namespace {

// Returns the number of processors to which this process is bound; 0 if the system does not tell.
size_t BoundProcessors() {
  // The machine may have more processors than a set of the usual size names.
  for (size_t num_processors = CPU_SETSIZE; num_processors <= size_t{1} << 20;
       num_processors *= 2) {
    cpu_set_t* const set = CPU_ALLOC(num_processors);
    if (set == nullptr) return 0;
    const size_t num_bytes = CPU_ALLOC_SIZE(num_processors);
    const bool is_known = ::sched_getaffinity(0, num_bytes, set) == 0;
    const int count = is_known ? CPU_COUNT_S(num_bytes, set) : 0;
    CPU_FREE(set);
    if (is_known) return static_cast<size_t>(count);
  }
  return 0;
}

// Returns what stands behind "NAME :" in the system's description of its first processor.
std::string ProcessorField(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || Trim(line.substr(0, colon)) != name) continue;
    return std::string(Trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

}  // namespace

size_t UsableProcessors() {
  size_t count = BoundProcessors();
  if (count == 0) count = std::thread::hardware_concurrency();
  const std::optional<size_t> paid = ProcessorsOfGroups("/proc/self/cgroup", "/sys/fs/cgroup");
  return std::max<size_t>(1, std::min(count, paid.value_or(count)));
}

std::string ProcessorName() { return ProcessorField("model name"); }

std::vector<std::string> InstructionSets() {
#ifdef __aarch64__
  std::istringstream flags(ProcessorField("Features"));
#else
  std::istringstream flags(ProcessorField("flags"));
#endif
  std::vector<std::string> sets;
  for (std::string flag; flags >> flag;) sets.push_back(flag);
  return sets;
}

bool HasArmDotProducts() {
#ifdef __aarch64__
  constexpr unsigned long kDotProducts = 1UL << 20U;  // HWCAP_ASIMDDP
  return (::getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;
#endif
}

bool MayUseTiles() {
#ifdef __x86_64__
  static const bool may_use = [] {
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may_use;
#else
  return false;
#endif
}

}  // namespace bitpress
