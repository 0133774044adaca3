#include "base/child_process.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace bitpress {

// The system sends no signal when a parent ends, but gives its children another parent.
void EndWithParent(int64_t parent) {
  if (::getppid() != parent) ::raise(SIGKILL);
  std::thread([parent] {
    while (::getppid() == parent) std::this_thread::sleep_for(std::chrono::seconds(1));
    ::raise(SIGKILL);
  }).detach();
}

}  // namespace bitpress
