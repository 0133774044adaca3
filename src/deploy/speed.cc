#include "deploy/speed.h"

#include <algorithm>
#include <chrono>

namespace bitpress::deploy {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Times some runs, and returns the shortest. The first run brings the model's data into the caches;
// it is the only one where a run takes so long that they hardly matter.
double TimeRuns(runtime::Session& session, const std::vector<Tensor>& inputs) {
  constexpr size_t kRuns = 3;
  constexpr double kLong = 0.03;
  double least = 0;
  for (size_t i = 0; i < kRuns && (i == 0 || least < kLong); ++i) {
    const Clock::time_point start = Clock::now();
    session.Run(inputs);
    least = i == 0 ? SecondsSince(start) : std::min(least, SecondsSince(start));
  }
  return least;
}

}  // namespace

Speed CompareSpeed(runtime::Session& written, const std::vector<Tensor>& written_inputs,
                   runtime::Session& given, const std::vector<Tensor>& given_inputs) {
  constexpr double kSeconds = 0.4;
  constexpr size_t kMostRounds = 12;
  std::vector<double> seconds, given_seconds, ratios;
  const Clock::time_point start = Clock::now();
  while (ratios.size() < kMostRounds && (ratios.empty() || SecondsSince(start) < kSeconds)) {
    seconds.push_back(TimeRuns(written, written_inputs));
    given_seconds.push_back(TimeRuns(given, given_inputs));
    ratios.push_back(seconds.back() / std::max(given_seconds.back(), 1e-9));
  }
  std::ranges::sort(ratios);
  Speed speed{.num_rounds = ratios.size(),
              .seconds = std::ranges::min(seconds),
              .given_seconds = std::ranges::min(given_seconds),
              .low_ratio = ratios[ratios.size() / 4]};
  speed.ratio = speed.seconds / std::max(speed.given_seconds, 1e-9);
  return speed;
}

}  // namespace bitpress::deploy
