#include "progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/console.h"

namespace bitpress::apps {
namespace {

constexpr size_t kWidth = 30;
constexpr std::chrono::milliseconds kInterval{50};
constexpr double kLeastElapsed = 2;  // seconds before there is an estimate

}  // namespace

ProgressBar::ProgressBar() : is_terminal_(IsErrorTerminal()) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) std::fputs("\r\x1b[K", stderr);
}

ProgressSink ProgressBar::Sink() {
  if (!is_terminal_) return {};
  return [this](std::string_view stage, size_t done, size_t total) { Draw(stage, done, total); };
}

void ProgressBar::Draw(std::string_view stage, size_t done, size_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (is_drawn_ && now - last_ < kInterval && done != total) return;
  last_ = now;
  is_drawn_ = true;
  // The part of the stage behind a colon changes from step to step.
  const std::string_view work = stage.substr(0, stage.find(':'));
  if (work != work_ || done < done_) {
    work_ = work;
    begin_ = now;
    first_ = done;
  }
  done_ = done;
  std::string line = fmt::format("\r{} ", stage);
  if (total > 0) {
    const size_t filled = std::min(kWidth, kWidth * done / total);
    line += fmt::format("[{}{}] {}/{}", std::string(filled, '#'), std::string(kWidth - filled, '.'),
                        done, total);
    const auto elapsed = std::chrono::duration<double>(now - begin_).count();
    if (elapsed > kLeastElapsed && done > first_) {
      const double left = elapsed * static_cast<double>(total - std::min(done, total)) /
                          static_cast<double>(done - first_);
      line += fmt::format(" {:.0f} s left", left);
    }
  } else {
    line += std::to_string(done);
  }
  line += "\x1b[K";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace bitpress::apps
