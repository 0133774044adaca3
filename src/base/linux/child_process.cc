#include "base/child_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace bitpress {

void EndWithParent(int64_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The signal tells of ends from now on only.
  if (::getppid() != parent) ::raise(SIGKILL);
}

}  // namespace bitpress
