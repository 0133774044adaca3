// Chooses formats for layers: the best combinations by what was measured of each layer alone,
// verified and repaired by measuring whole models. Which model a choice means, and how it is
// measured, is the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/costs.h"
#include "search/front.h"
#include "search/goals.h"

namespace bitpress::search {

// The index of a combination of the space for each group of layers.
using Choice = std::vector<size_t>;

enum class Strategy {
  kOptimal,  // along the front of the best combinations
  kGreedy,   // AMD Quark's automatic mixed precision: from the finest formats, the least sensitive
             // layers are lowered one by one, until the target is missed; that one is undone
};
inline constexpr std::array<std::pair<std::string_view, Strategy>, 2> kStrategyWords{
    {{"optimal", Strategy::kOptimal}, {"greedy", Strategy::kGreedy}}};
std::string_view StrategyName(Strategy strategy);

struct SearchPoint {
  double cost = 0;
  double noise = 0;  // predicted
  Choice choice;
  std::optional<Measurement> measured;
};

struct SearchGoals {
  std::optional<Target> target;
  std::optional<Budget> budget;
  Strategy strategy = Strategy::kOptimal;
  // So many points of the front are measured whether they are needed or not, evenly along it.
  size_t num_measured = 0;
};

struct SearchResult {
  // By rising cost. Of the optimal strategy the front; of the greedy one its way, where points may
  // be beaten.
  std::vector<SearchPoint> points;
  bool is_exact = true;     // see Front
  size_t chosen = 0;        // of `points`; where the target was not reached the best
  bool is_reached = true;   // the target, within the budget
  std::string why_not;      // "" if it was
  size_t num_measured = 0;  // models
};

// Measures the model of a choice.
using Measure = std::function<Measurement(const Choice& choice)>;

// Without a target: the least loss within the budget. With one: the least cost that reaches it.
// Throws Error(kInvalidArgument) if there is neither, or if no choice fits the budget.
SearchResult Search(const CostModel& costs, const Space& space, const SearchGoals& goals,
                    const Measure& measure);

// The groups whose formats lose most by this choice, the worst first, with their noise.
std::vector<std::pair<size_t, double>> WorstGroups(const CostModel& costs, const Space& space,
                                                   const Choice& choice, size_t count);

}  // namespace bitpress::search
