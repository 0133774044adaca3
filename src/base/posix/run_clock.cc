#include "base/run_clock.h"

#include <time.h>

#include <chrono>
#include <cstdlib>

namespace bitpress {

RunClock::RunClock(bool is_one_thread) : is_of_processor_(is_one_thread) {}

double RunClock::Seconds() const {
  timespec now{};
  if (is_of_processor_ && ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0) {
    constexpr double kNano = 1e-9;
    return static_cast<double>(now.tv_sec) + kNano * static_cast<double>(now.tv_nsec);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<double> SystemLoad() {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) return std::nullopt;
  return load;
}

}  // namespace bitpress
