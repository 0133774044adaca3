#include "calibrate/noisy_parts.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace bitpress::calibrate {
namespace {

// Beyond this noise, errors do not add up any more.
constexpr double kMostToSubtract = 0.25;

// Returns the largest share of what is allowed.
double LoudnessOf(const NoisyPart& part, const PartSearch& search) {
  double loudness = 0;
  for (size_t k = 0; k < part.noise.size(); ++k) {
    loudness = std::max(loudness, part.noise[k] / search.allowed[k]);
  }
  return loudness;
}

bool AddUp(const NoisyPart& part) {
  return std::ranges::all_of(part.noise, [](double noise) { return noise <= kMostToSubtract; });
}

}  // namespace

std::vector<NoisyPart> FindNoisyParts(size_t size, std::vector<double> noise,
                                      const PartSearch& search) {
  using Loud = std::pair<double, NoisyPart>;
  const auto is_quieter = [](const Loud& one, const Loud& other) {
    return std::pair(one.first, other.second.begin) < std::pair(other.first, one.second.begin);
  };
  std::priority_queue<Loud, std::vector<Loud>, decltype(is_quieter)> queue(is_quieter);
  const auto push = [&](NoisyPart part) {
    const double loudness = LoudnessOf(part, search);
    queue.emplace(loudness, std::move(part));
  };
  push({0, size, std::move(noise)});
  const bool is_short = search.most_measurements < 2 * size;
  std::vector<NoisyPart> found;
  for (size_t count = 0; !queue.empty();) {
    const auto [loudness, part] = queue.top();
    queue.pop();
    if (loudness < search.least_share) break;
    if (part.size() == 1 || count >= search.most_measurements) {
      found.push_back(part);
      continue;
    }
    const size_t middle = part.begin + part.size() / 2;
    NoisyPart first{part.begin, middle, {}};
    NoisyPart second{middle, part.end, search.measure(middle, part.end)};
    ++count;
    if (is_short && AddUp(part)) {
      for (size_t k = 0; k < part.noise.size(); ++k) {
        first.noise.push_back(std::max(0.0, part.noise[k] - second.noise[k]));
      }
    } else {
      first.noise = search.measure(part.begin, middle);
      ++count;
    }
    push(std::move(first));
    push(std::move(second));
  }
  return found;
}

}  // namespace bitpress::calibrate
