// The front of the best combinations of choices under two additive measures, cost and loss. A
// search finds its candidates for whole models with it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitpress::search {

// A way to treat one item.
struct Option {
  double cost = 0;
  double loss = 0;
};

// A combination: one option for every item.
struct FrontPoint {
  double cost = 0;             // sum over the items
  double loss = 0;             // sum over the items
  std::vector<size_t> choice;  // index of each item's option
};

// All combinations that none beats.
struct Front {
  // The combinations by rising cost, and so by falling loss. No combination is better than one of
  // these in one measure and not worse in the other.
  std::vector<FrontPoint> points;
  // This holds for all combinations. Otherwise combinations were taken for one if their costs
  // differ by less than 1 / `most_kept` of the whole range.
  bool is_exact = true;
};

// A multiple-choice knapsack for every capacity at once, by dynamic programming over the items:
// after each the combinations that none beats are kept, at most `most_kept` of them.
// An option with an infinite loss is never taken. REQUIRES: each item has an option with a finite
// loss; all costs are finite.
Front FindFront(const std::vector<std::vector<Option>>& items, size_t most_kept = 20'000);

// Returns at most `count` points, spread evenly over the cost. The first and the last are among
// them. REQUIRES: count >= 2.
std::vector<FrontPoint> Thin(std::vector<FrontPoint> points, size_t count);

}  // namespace bitpress::search
