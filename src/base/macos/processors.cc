#include "base/processors.h"

#include <sys/sysctl.h>

#include <algorithm>
#include <thread>

namespace bitpress {

size_t UsableProcessors() { return std::max<size_t>(1, std::thread::hardware_concurrency()); }

std::string ProcessorName() {
  constexpr const char* kField = "machdep.cpu.brand_string";
  size_t size = 0;
  if (::sysctlbyname(kField, nullptr, &size, nullptr, 0) != 0 || size == 0) return "";
  std::string name(size, '\0');
  if (::sysctlbyname(kField, name.data(), &size, nullptr, 0) != 0) return "";
  return name.c_str();  // the size counts the zero at the end
}

std::vector<std::string> InstructionSets() { return {}; }

bool HasArmDotProducts() {
  int has = 0;
  size_t size = sizeof(has);
  return ::sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has != 0;
}

// No Macintosh has them.
bool MayUseTiles() { return false; }

}  // namespace bitpress
