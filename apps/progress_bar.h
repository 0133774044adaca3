// Shows the progress of long work on the terminal: one line on standard error, which is rewritten
// and removed at the end. Shows nothing if standard error is a file or a pipe.
#pragma once

#include <chrono>
#include <string>

#include "bitpress/progress.h"

namespace bitpress::apps {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Returns the sink that draws the bar. It is empty if there is no terminal. The bar must outlive
  // it.
  ProgressSink Sink();
  // Removes the bar until the next progress, so that other text can be printed.
  void Clear();

 private:
  void Draw(std::string_view stage, size_t done, size_t total);

  bool is_terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point last_;
  // The remaining time is estimated from these.
  std::string work_;                             // name of the present work
  std::chrono::steady_clock::time_point begin_;  // time of its first report
  size_t first_ = 0;                             // steps that were done then
  size_t done_ = 0;                              // steps that are done now
};

}  // namespace bitpress::apps
