#include "search/front.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace bitpress::search {
namespace {

// A combination for the items so far: the combination of the items before, and an option of the
// last.
struct State {
  double cost = 0;
  double loss = 0;
  uint32_t before = 0;
  uint32_t option = 0;
};

// Sorts states by rising cost and keeps those that none beats. The first of equal states stays.
void DropBeaten(std::vector<State>& states) {
  std::ranges::stable_sort(states, [](const State& a, const State& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.loss < b.loss;
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(states, [&](const State& state) {
    if (state.loss >= least) return true;
    least = state.loss;
    return false;
  });
}

// Keeps the first state, and the last of each of `count` equal stretches of the cost, which loses
// least there.
void KeepOneAStretch(std::vector<State>& states, size_t count) {
  const double first = states.front().cost;
  const double width = (states.back().cost - first) / static_cast<double>(count);
  const auto stretch = [&](const State& state) {
    return std::min(count - 1, static_cast<size_t>((state.cost - first) / width));
  };
  std::vector<State> kept;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool is_last = i + 1 == states.size() || stretch(states[i]) != stretch(states[i + 1]);
    if (i == 0 || is_last) kept.push_back(states[i]);
  }
  states = std::move(kept);
}

}  // namespace

Front FindFront(const std::vector<std::vector<Option>>& items, size_t most_kept) {
  BITPRESS_DCHECK(std::ranges::all_of(items, [](const std::vector<Option>& options) {
    return std::ranges::any_of(options, [](const Option& o) { return std::isfinite(o.loss); }) &&
           std::ranges::all_of(options, [](const Option& o) { return std::isfinite(o.cost); });
  }));
  Front front;
  std::vector<std::vector<State>> levels{{State{}}};
  for (const std::vector<Option>& options : items) {
    const std::vector<State>& before = levels.back();
    std::vector<State> states;
    states.reserve(before.size() * options.size());
    for (uint32_t i = 0; i < before.size(); ++i) {
      for (uint32_t option = 0; option < options.size(); ++option) {
        states.push_back({before[i].cost + options[option].cost,
                          before[i].loss + options[option].loss, i, option});
      }
    }
    DropBeaten(states);
    if (states.size() > most_kept) {
      KeepOneAStretch(states, most_kept);
      front.is_exact = false;
    }
    levels.push_back(std::move(states));
  }
  for (size_t i = 0; i < levels.back().size(); ++i) {
    FrontPoint point{levels.back()[i].cost, levels.back()[i].loss,
                     std::vector<size_t>(items.size())};
    size_t state = i;
    for (size_t item = items.size(); item > 0; --item) {
      point.choice[item - 1] = levels[item][state].option;
      state = levels[item][state].before;
    }
    front.points.push_back(std::move(point));
  }
  return front;
}

std::vector<FrontPoint> Thin(std::vector<FrontPoint> points, size_t count) {
  BITPRESS_DCHECK(count >= 2);
  if (points.size() <= count) return points;
  const double first = points.front().cost;
  const double step = (points.back().cost - first) / static_cast<double>(count - 1);
  std::vector<FrontPoint> kept;
  for (size_t i = 0; i < points.size(); ++i) {
    // The last point of each stretch, so that each loses least for what it costs.
    const double end = first + step * static_cast<double>(kept.size());
    const bool is_last = i + 1 == points.size();
    if (is_last || points[i + 1].cost > end) {
      if (points[i].cost >= end - step || is_last) kept.push_back(std::move(points[i]));
    }
  }
  return kept;
}

}  // namespace bitpress::search
