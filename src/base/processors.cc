#include "base/processors.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/control_groups.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

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

}  // namespace bitpress
