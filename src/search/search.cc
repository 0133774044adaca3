#include "search/search.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/words.h"

namespace bitpress::search {
namespace {

[[noreturn]] void FailBudget(const Budget& budget, double least_cost) {
  Fail(ErrorCode::kInvalidArgument,
       "budget {} cannot be kept: the cheapest candidates everywhere take {} = {:.4g}",
       budget.Text(), CostName(budget.kind), least_cost);
}

// The most points of the front that are looked at, spread evenly over its cost.
constexpr size_t kMostPoints = 256;
// The number of cheaper neighbours of the found point that are tried as well, because measurements
// rise along the front, but not strictly.
constexpr size_t kNumNeighbours = 3;

class Searcher {
 public:
  Searcher(const CostModel& costs, const Space& space, const SearchGoals& goals,
           const Measure& measure)
      : costs_(costs), space_(space), goals_(goals), measure_(measure) {}

  SearchResult RunOptimal() {
    std::vector<std::vector<Option>> items;
    for (const LayerGroup& group : costs_.groups()) items.push_back(OptionsOf(group));
    Front front = FindFront(items);
    result_.is_exact = front.is_exact;
    for (FrontPoint& point : Thin(std::move(front.points), kMostPoints)) {
      AddPoint(std::move(point.choice));
    }
    const size_t num_allowed = NumAllowed();
    if (goals_.target) {
      FindTarget(num_allowed);
    } else {
      result_.chosen = num_allowed - 1;
      MeasuredAt(result_.chosen);
    }
    MeasureEvenly();
    return std::move(result_);
  }

  SearchResult RunGreedy() {
    if (!goals_.target) {
      Fail(ErrorCode::kInvalidArgument,
           "the greedy strategy lowers layers until a target is missed: give a target");
    }
    // The user asks for variants: the base comes first, and a step need not save anything.
    Choice choice = space_.has_variants ? Choice(costs_.groups().size(), 0) : FinestChoice();
    AddPoint(choice);
    if (!goals_.target->IsReached(MeasuredAt(0))) {
      Miss(0);
      return std::move(result_);
    }
    for (const Step& step : StepsFrom(choice)) {
      const bool saves =
          CostOf(step.group, step.combination) < CostOf(step.group, choice[step.group]);
      if (!saves && !space_.has_variants) continue;
      Choice lower = choice;
      lower[step.group] = step.combination;
      AddPoint(lower);
      if (!goals_.target->IsReached(MeasuredAt(result_.points.size() - 1))) break;
      choice = std::move(lower);
      result_.chosen = result_.points.size() - 1;
    }
    SortPoints();
    CheckBudget();
    return std::move(result_);
  }

 private:
  struct Step {
    size_t group = 0;
    size_t combination = 0;
    double noise = 0;
  };

  double CostOf(size_t group, size_t combination) const {
    return costs_.Of(costs_.groups()[group], space_.combinations[combination]);
  }
  double NoiseOf(size_t group, size_t combination) const {
    return costs_.NoiseOf(costs_.groups()[group], space_.combinations[combination]);
  }

  // A noise is infinite where the float model's output is 0 on all samples and the other's is not.
  // Such a combination is taken only where all of the group are infinite, and their costs decide.
  std::vector<Option> OptionsOf(const LayerGroup& group) const {
    std::vector<Option> options;
    for (const std::vector<size_t>& combination : space_.combinations) {
      const double noise = costs_.NoiseOf(group, combination);
      options.push_back({costs_.Of(group, combination),
                         std::isfinite(noise) ? noise : std::numeric_limits<double>::infinity()});
    }
    if (std::ranges::none_of(options, [](const Option& o) { return std::isfinite(o.loss); })) {
      for (Option& option : options) option.loss = 0;
    }
    return options;
  }

  void AddPoint(Choice choice) {
    SearchPoint point{costs_.fixed(), costs_.fixed_noise(), std::move(choice), std::nullopt};
    for (size_t group = 0; group < point.choice.size(); ++group) {
      point.cost += CostOf(group, point.choice[group]);
      point.noise += NoiseOf(group, point.choice[group]);
    }
    result_.points.push_back(std::move(point));
  }

  const Measurement& MeasuredAt(size_t index) {
    SearchPoint& point = result_.points[index];
    if (!point.measured) {
      point.measured = measure_(point.choice);
      ++result_.num_measured;
    }
    return *point.measured;
  }

  // Returns how many points from the start are within the budget.
  size_t NumAllowed() const {
    if (!goals_.budget) return result_.points.size();
    const double bound = goals_.budget->bound;
    const auto count = std::ranges::count_if(
        result_.points, [&](const SearchPoint& point) { return point.cost <= bound; });
    if (count == 0) FailBudget(*goals_.budget, result_.points.front().cost);
    return static_cast<size_t>(count);
  }

  void FindTarget(size_t num_allowed) {
    size_t good = num_allowed - 1;
    if (!goals_.target->IsReached(MeasuredAt(good))) return Miss(num_allowed);
    size_t bad = 0;  // all points before this one are taken to fail
    while (bad < good) {
      const size_t middle = bad + (good - bad) / 2;
      if (goals_.target->IsReached(MeasuredAt(middle))) {
        good = middle;
      } else {
        bad = middle + 1;
      }
    }
    for (size_t tried = 0; tried < kNumNeighbours && good > tried; ++tried) {
      if (!goals_.target->IsReached(MeasuredAt(good - tried - 1))) continue;
      good -= tried + 1;
      tried = static_cast<size_t>(-1);  // begins again from there
    }
    result_.chosen = good;
  }

  // Chooses the best point if the finest one within the budget misses the target. The least
  // predicted loss is not always the least measured one, so that some points below it are tried.
  void Miss(size_t num_allowed) {
    result_.is_reached = false;
    for (size_t i = 0; i < kNumNeighbours && i + 1 < num_allowed; ++i) {
      const size_t index = num_allowed - 2 - i;
      if (goals_.target->IsReached(MeasuredAt(index))) {
        result_.is_reached = true;
        result_.chosen = index;
        return;
      }
    }
    for (size_t i = 0; i < result_.points.size(); ++i) {
      const SearchPoint& best = result_.points[result_.chosen];
      const SearchPoint& point = result_.points[i];
      if (!point.measured) continue;
      if (!best.measured || goals_.target->IsBetter(*point.measured, *best.measured)) {
        result_.chosen = i;
      }
    }
    const Measurement& best = *result_.points[result_.chosen].measured;
    result_.why_not =
        fmt::format("target {} was not reached{}: the best of {} measured models has {:.4g}",
                    goals_.target->Text(),
                    goals_.budget ? fmt::format(" within {}", goals_.budget->Text()) : "",
                    result_.num_measured, goals_.target->ValueOf(best));
  }

  void MeasureEvenly() {
    if (goals_.num_measured < 2) return;
    const size_t last = result_.points.size() - 1;
    for (size_t i = 0; i < goals_.num_measured; ++i) {
      MeasuredAt(i * last / (goals_.num_measured - 1));
    }
  }

  // Returns the choice with the least loss for each group, the cheapest of equal ones.
  Choice FinestChoice() const {
    Choice choice;
    for (const LayerGroup& group : costs_.groups()) {
      const std::vector<Option> options = OptionsOf(group);
      const auto finest = std::ranges::min_element(options, [](const Option& a, const Option& b) {
        return a.loss != b.loss ? a.loss < b.loss : a.cost < b.cost;
      });
      choice.push_back(static_cast<size_t>(finest - options.begin()));
    }
    return choice;
  }

  // Returns what a combination costs beyond another one. What both lose, such as by weights that
  // they share, says nothing about a step between them.
  double AddedNoise(size_t group, size_t combination, size_t base) const {
    const double noise = NoiseOf(group, combination);
    const double before = NoiseOf(group, base);
    if (std::isfinite(noise) && std::isfinite(before)) return noise - before;
    return std::isfinite(before) ? std::numeric_limits<double>::infinity() : 0;
  }

  // Returns the other combinations of every group, those that cost least first.
  std::vector<Step> StepsFrom(const Choice& choice) const {
    std::vector<Step> steps;
    for (size_t group = 0; group < choice.size(); ++group) {
      for (size_t i = 0; i < space_.combinations.size(); ++i) {
        if (i != choice[group]) steps.push_back({group, i, AddedNoise(group, i, choice[group])});
      }
    }
    std::ranges::stable_sort(steps, {}, &Step::noise);
    return steps;
  }

  void SortPoints() {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < result_.points.size(); ++i) {
      order.emplace_back(result_.points[i].cost, i);
    }
    std::ranges::sort(order);
    std::vector<SearchPoint> sorted;
    size_t chosen = 0;
    for (const auto& [cost, index] : order) {
      if (index == result_.chosen) chosen = sorted.size();
      sorted.push_back(std::move(result_.points[index]));
    }
    result_.points = std::move(sorted);
    result_.chosen = chosen;
  }

  void CheckBudget() {
    const double cost = result_.points[result_.chosen].cost;
    if (!goals_.budget || cost <= goals_.budget->bound) return;
    result_.is_reached = false;
    result_.why_not = fmt::format("budget {} was not kept: target {} takes {:.4g}",
                                  goals_.budget->Text(), goals_.target->Text(), cost);
  }

  const CostModel& costs_;
  const Space& space_;
  const SearchGoals& goals_;
  const Measure& measure_;
  SearchResult result_;
};

}  // namespace

std::string_view StrategyName(Strategy strategy) {
  return WordOf<Strategy>(kStrategyWords, strategy);
}

SearchResult Search(const CostModel& costs, const Space& space, const SearchGoals& goals,
                    const Measure& measure) {
  if (!goals.target && !goals.budget) {
    Fail(ErrorCode::kInvalidArgument,
         "there is nothing to search for: give a target (such as agreement>=98) or a budget (such "
         "as bits<=5)");
  }
  if (space.combinations.size() < 2) {
    Fail(ErrorCode::kInvalidArgument, "there is one candidate only, and nothing to choose");
  }
  Searcher searcher(costs, space, goals, measure);
  return goals.strategy == Strategy::kGreedy ? searcher.RunGreedy() : searcher.RunOptimal();
}

void CheckBudget(const CostModel& costs, const Space& space, const Budget& budget) {
  double cost = costs.fixed();
  for (const LayerGroup& group : costs.groups()) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<size_t>& combination : space.combinations) {
      least = std::min(least, costs.Of(group, combination));
    }
    cost += least;
  }
  if (cost > budget.bound) FailBudget(budget, cost);
}

std::vector<std::pair<size_t, double>> WorstGroups(const CostModel& costs, const Space& space,
                                                   const Choice& choice, size_t count) {
  std::vector<std::pair<size_t, double>> worst;
  for (size_t group = 0; group < choice.size(); ++group) {
    worst.emplace_back(group,
                       costs.NoiseOf(costs.groups()[group], space.combinations[choice[group]]));
  }
  std::ranges::stable_sort(worst, std::ranges::greater(), &std::pair<size_t, double>::second);
  if (worst.size() > count) worst.resize(count);
  return worst;
}

}  // namespace bitpress::search
