// Draws progress on the terminal: one line on standard error that is rewritten and wiped at the
// end. Draws nothing when standard error is a file or a pipe.
#pragma once

#include <chrono>
#include <string>

#include "base/progress.h"

namespace bitpress::apps {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Empty if there is no terminal. The bar must outlive it.
  ProgressSink Sink();

 private:
  void Draw(std::string_view stage, size_t done, size_t total);

  bool is_terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point last_;
  // For the time that is left: the work, when it was first heard of, and how far it was then.
  std::string work_;
  std::chrono::steady_clock::time_point begin_;
  size_t first_ = 0;
  size_t done_ = 0;
};

}  // namespace bitpress::apps
