// The search for formats of layers. It finds the best combinations by the measured loss of each
// layer alone, then verifies and repairs them by measuring whole models. The caller makes the model
// of a choice and measures it.
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

// The way to search.
enum class Strategy {
  kOptimal,  // goes along the front of the best combinations
  kGreedy,   // AMD Quark's automatic mixed precision: it begins with the finest formats and lowers
             // the least sensitive layers one by one until the target is missed; the last one is
             // undone
};
inline constexpr std::array<std::pair<std::string_view, Strategy>, 2> kStrategyWords{
    {{"optimal", Strategy::kOptimal}, {"greedy", Strategy::kGreedy}}};
std::string_view StrategyName(Strategy strategy);

// A choice with its figures.
struct SearchPoint {
  double cost = 0;
  double noise = 0;  // predicted, with that of all that no choice is about, as PartLoss::noise
  Choice choice;
  std::optional<Measurement> measured;
};

// What is asked of a search.
struct SearchGoals {
  std::optional<Target> target;
  std::optional<Budget> budget;
  Strategy strategy = Strategy::kOptimal;
  // The number of points, evenly along the front, that are measured whether they are needed or not.
  size_t num_measured = 0;
};

// The found choices, and the chosen one.
struct SearchResult {
  // The points by rising cost: the front of the optimal strategy, or the way of the greedy one,
  // where points may be beaten.
  std::vector<SearchPoint> points;
  bool is_exact = true;     // see Front
  size_t chosen = 0;        // index in `points`; the best one if the target was not reached
  bool is_reached = true;   // the target is reached within the budget
  std::string why_not;      // the reason if it is not, else ""
  size_t num_measured = 0;  // number of models that were measured
};

// Measures the model of a choice.
using Measure = std::function<Measurement(const Choice& choice)>;

// Finds the choice with the least cost that reaches the target. Without a target it finds the least
// loss within the budget. Throws Error(kInvalidArgument) if there is neither, or if no choice fits
// the budget.
SearchResult Search(const CostModel& costs, const Space& space, const SearchGoals& goals,
                    const Measure& measure);

// Throws Error(kInvalidArgument) if no choice fits the budget. It reads no losses.
void CheckBudget(const CostModel& costs, const Space& space, const Budget& budget);

// Returns the groups whose formats lose most by this choice, the worst first, with their noise.
std::vector<std::pair<size_t, double>> WorstGroups(const CostModel& costs, const Space& space,
                                                   const Choice& choice, size_t count);

}  // namespace bitpress::search
