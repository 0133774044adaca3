#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace bitpress::internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: the contract is broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace bitpress::internal
