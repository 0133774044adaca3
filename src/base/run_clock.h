// The time of runs that are compared with others.
#pragma once

#include <optional>

namespace bitpress {

// A clock for work that may share the machine with other programs.
class RunClock {
 public:
  // `is_one_thread`: the work runs on the thread that calls, which is then measured by the time
  // that a processor gave it. Other programs hardly change that. The work of several threads is
  // measured by the time that passes, which is what they shorten.
  explicit RunClock(bool is_one_thread);
  // Returns seconds since some moment.
  double Seconds() const;
  // Returns whether it is the time of a processor. It is not where the system counts that in steps
  // that are longer than runs.
  bool IsOfProcessor() const { return is_of_processor_; }

 private:
  bool is_of_processor_;
};

// Returns how many threads of all programs wanted a processor, on average over the last minute.
// Nothing if the system does not tell.
std::optional<double> SystemLoad();

}  // namespace bitpress
