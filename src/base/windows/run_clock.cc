#include "base/run_clock.h"

#include <chrono>

namespace bitpress {

// Windows counts the time of a thread in steps of 16 ms.
RunClock::RunClock(bool) : is_of_processor_(false) {}

double RunClock::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<double> SystemLoad() { return std::nullopt; }

}  // namespace bitpress
