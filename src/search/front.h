// The best combinations of choices under two additive measures: what each costs and what it loses.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitpress::search {

// One way to treat one item.
struct Option {
  double cost = 0;
  double loss = 0;
};

// One option for every item.
struct FrontPoint {
  double cost = 0;  // sums over the items
  double loss = 0;
  std::vector<size_t> choice;
};

struct Front {
  // By rising cost, so by falling loss: no combination is better than one of these in one measure
  // and not worse in the other.
  std::vector<FrontPoint> points;
  // Whether that holds for all combinations. Otherwise only combinations whose costs differ by less
  // than 1 / `most_kept` of the whole range may have been taken for one.
  bool is_exact = true;
};

// A multiple-choice knapsack for every capacity at once, by dynamic programming over the items:
// after each the combinations that none beats are kept, at most `most_kept` of them.
// An option with an infinite loss is never taken. REQUIRES: each item has an option with a finite
// loss; all costs are finite.
Front FindFront(const std::vector<std::vector<Option>>& items, size_t most_kept = 20'000);

// At most `count` points, spread evenly over the cost; the first and the last are among them.
// REQUIRES: count >= 2.
std::vector<FrontPoint> Thin(std::vector<FrontPoint> points, size_t count);

}  // namespace bitpress::search
