#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "base/control_groups.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

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

// Returns the processors that one control group pays for, in either version of the interface:
// microseconds of computing in a period. "max", -1 or a missing file is no limit.
std::optional<double> ProcessorsOf(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream both(group / "cpu.max");
  if (!(both >> quota >> period)) {
    std::ifstream quota_file(group / "cpu.cfs_quota_us");
    std::ifstream period_file(group / "cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<size_t> ProcessorsOfGroups(const fs::path& own, const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& group : ControlGroups("cpu", own, root)) {
    const std::optional<double> here = ProcessorsOf(group);
    if (here) least = std::min(*here, least.value_or(*here));
  }
  if (!least) return std::nullopt;
  return static_cast<size_t>(std::ceil(std::min(*least, 1e6)));
}

size_t UsableProcessors() {
  size_t count = BoundProcessors();
  if (count == 0) count = std::thread::hardware_concurrency();
  const std::optional<size_t> paid = ProcessorsOfGroups("/proc/self/cgroup", "/sys/fs/cgroup");
  return std::max<size_t>(1, std::min(count, paid.value_or(count)));
}

}  // namespace bitpress
