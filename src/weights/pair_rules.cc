#include "weights/pair_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "formats/qparams_search.h"

namespace bitpress::weights {
namespace {

using formats::PairBounds;
using formats::PairCodes;
using formats::PairTarget;
using formats::QParams;

// A sum of the weight while a scale is chosen for it.
struct Sum {
  const PairRule* rule;
  int64_t index;
};

// Fits the pairs of one sum; `code_at` and `target_at` map positions of the sum.
template <typename CodeAt, typename TargetAt>
uint64_t FitSum(const PairRule& rule, int64_t sum, const CodeAt& code_at,
                const TargetAt& target_at) {
  uint64_t num_changed = 0;
  for (int64_t i = 0; i + 1 < rule.sums.length; i += 2) {
    const size_t first = rule.sums.ChannelOf(sum, i);
    const size_t second = rule.sums.ChannelOf(sum, i + 1);
    const PairCodes codes{code_at(i), code_at(i + 1)};
    const PairBounds largest{rule.LargestOf(first), rule.LargestOf(second)};
    if (formats::FitsPairSum(codes, largest)) continue;
    const PairTarget target{target_at(i), target_at(i + 1), rule.CostOf(first),
                            rule.CostOf(second)};
    const PairCodes fitting = formats::FitPair(codes, target, largest);
    code_at(i) = fitting.first;
    code_at(i + 1) = fitting.second;
    ++num_changed;
  }
  return num_changed;
}

// The pairs that are rounded at once. Loops of this length become vectors.
constexpr size_t kPairsAtOnce = 16;

// The first elements of all pairs, or the second ones.
struct Side {
  void Reserve(size_t num_pairs) {
    for (std::vector<float>* const part : {&values, &costs, &largest}) part->reserve(num_pairs);
  }
  void Add(float value, float cost, float most) {
    values.push_back(value);
    costs.push_back(cost);
    largest.push_back(most);
  }

  std::vector<float> values;
  std::vector<float> costs;
  std::vector<float> largest;  // whole numbers
};

// The pairs of the sums that share parameters, side by side so that they can be rounded again and
// again. Pairs of zeros without a cost make up for a number that kPairsAtOnce does not divide.
struct Elements {
  explicit Elements(std::span<const Sum> sums, std::span<const float> weight) {
    size_t num_pairs = kPairsAtOnce;
    for (const Sum& sum : sums) num_pairs += static_cast<size_t>(sum.rule->sums.length / 2 + 1);
    for (Side& side : sides) side.Reserve(num_pairs);
    for (const Sum& sum : sums) {
      const ops::SumLayout& layout = sum.rule->sums;
      for (int64_t i = 0; i < layout.length; ++i) {
        const size_t channel = layout.ChannelOf(sum.index, i);
        sides[static_cast<size_t>(i % 2)].Add(weight[layout.ElementOf(sum.index, i)],
                                              static_cast<float>(sum.rule->CostOf(channel)),
                                              static_cast<float>(sum.rule->LargestOf(channel)));
      }
      // The last element of an odd number is a pair with zero.
      if (layout.length % 2 != 0) sides[1].Add(0, 0, 0);
    }
    while (sides[0].values.size() % kPairsAtOnce != 0) {
      for (Side& side : sides) side.Add(0, 0, 0);
    }
  }

  // Returns the same elements with activations of zero, with which no code saturates.
  Elements WithoutActivation() const {
    Elements elements = *this;
    for (Side& side : elements.sides) std::ranges::fill(side.largest, 0);
    return elements;
  }

  std::array<Side, 2> sides;
};

// The elements of one side in units of the scale, their codes, and the products with the largest
// activations.
struct RoundedSide {
  std::array<float, kPairsAtOnce> units, codes, products;

  void Round(const Side& side, size_t first, float inverse, float zero_point,
             formats::CodeRange range) {
    // Adding this makes a number below 2^22 whole, half to even.
    constexpr float kMagic = 0x1.8p23f;
    const auto least = static_cast<float>(range.quant_min);
    const auto most = static_cast<float>(range.quant_max);
    for (size_t i = 0; i < kPairsAtOnce; ++i) {
      units[i] = side.values[first + i] * inverse + zero_point;
      codes[i] = std::clamp(units[i], least, most) + kMagic - kMagic;
      products[i] = codes[i] * side.largest[first + i];
    }
  }
};

struct Trial {
  double cost = 0;  // cost of all errors
  uint64_t num_changed = 0;
};

// Rounds to nearest in float32. Ties may differ from the codes of formats::ref, which is good
// enough to choose a scale. Ends early, with a part of the cost, once that is `most_cost`.
Trial Try(const Elements& elements, const QParams& params, formats::CodeRange range,
          double most_cost = std::numeric_limits<double>::infinity()) {
  Trial trial;
  const float inverse = 1 / params.scale;
  const auto zero_point = static_cast<float>(params.zero_point);
  const double unit = double{params.scale} * params.scale;
  const auto& [first, second] = elements.sides;
  RoundedSide a, b;
  std::array<float, kPairsAtOnce> costs, positive, negative;
  for (size_t begin = 0; begin < first.values.size(); begin += kPairsAtOnce) {
    a.Round(first, begin, inverse, zero_point, range);
    b.Round(second, begin, inverse, zero_point, range);
    const auto cost_of = [&](size_t i) {
      const float first_error = a.codes[i] - a.units[i];
      const float second_error = b.codes[i] - b.units[i];
      return first.costs[begin + i] * first_error * first_error +
             second.costs[begin + i] * second_error * second_error;
    };
    // Products of codes are whole numbers below 2^24, so that FitsPairSum can be asked in floats.
    for (size_t i = 0; i < kPairsAtOnce; ++i) {
      costs[i] = cost_of(i);
      positive[i] = std::max(a.products[i], 0.0f) + std::max(b.products[i], 0.0f);
      negative[i] = std::min(a.products[i], 0.0f) + std::min(b.products[i], 0.0f);
    }
    for (size_t i = 0; i < kPairsAtOnce; ++i) {
      if (positive[i] > static_cast<float>(formats::kLargestPairSum) ||
          negative[i] < static_cast<float>(formats::kLeastPairSum)) {
        const size_t at = begin + i;
        const PairCodes fitted = formats::FitPair(
            {static_cast<int32_t>(a.codes[i]), static_cast<int32_t>(b.codes[i])},
            {a.units[i], b.units[i], first.costs[at], second.costs[at]},
            {static_cast<int32_t>(first.largest[at]), static_cast<int32_t>(second.largest[at])});
        a.codes[i] = static_cast<float>(fitted.first);
        b.codes[i] = static_cast<float>(fitted.second);
        costs[i] = cost_of(i);
        ++trial.num_changed;
      }
      trial.cost += unit * double{costs[i]};
    }
    if (trial.cost >= most_cost) break;
  }
  return trial;
}

// Returns the sums that each of the parameters belongs to. Returns nothing if the elements of one
// sum have several parameters. No plan makes such a layout: its scales differ along output
// channels.
std::vector<std::vector<Sum>> SumsOfParams(std::span<const PairRule> rules, size_t num_params,
                                           const std::function<size_t(size_t)>& params_of) {
  std::vector<std::vector<Sum>> sums_of(num_params);
  for (const PairRule& rule : rules) {
    if (rule.sums.length < 2) continue;
    for (int64_t sum = 0; sum < rule.sums.num_sums; ++sum) {
      const size_t of = params_of(rule.sums.ElementOf(sum, 0));
      if (params_of(rule.sums.ElementOf(sum, rule.sums.length - 1)) != of) return {};
      sums_of[of].push_back({&rule, sum});
    }
  }
  return sums_of;
}

struct ChosenScale {
  QParams params;
  double cost = 0;
  bool can_saturate = false;  // with the given scale
};

ChosenScale ChooseScale(const Elements& elements, const QParams& params,
                        const formats::IntegerSpec& spec) {
  constexpr int kStepsPerOctave = 16;
  const formats::CodeRange range = formats::SearchedCodes(spec);
  const Trial given = Try(elements, params, range);
  ChosenScale best{params, given.cost, given.num_changed > 0};
  for (int step = 1; step <= kStepsPerOctave; ++step) {
    QParams wider = params;
    wider.scale = formats::AllowedScale(
        double{params.scale} * std::exp2(step / double{kStepsPerOctave}), spec.scale_kind);
    if (!std::isfinite(wider.scale) || wider.scale <= params.scale) continue;
    const double cost = Try(elements, wider, range, best.cost).cost;
    if (cost < best.cost) best = {wider, cost, best.can_saturate};
  }
  return best;
}

}  // namespace

PairRules::PairRules(const plan::QuantPlan& plan, const graph::Model& model,
                     const plan::ChannelCodesTable& channels)
    : model_(model),
      channels_(channels),
      nodes_(model),
      activations_(plan::ActivationsOfNodes(plan)) {}

std::vector<PairRule> PairRules::For(const plan::TensorPlan& weight) const {
  std::vector<PairRule> rules;
  if (!weight.integer || !weight.integer->is_pair_safe) return rules;
  const std::span<const int64_t> dims = model_.Initializer(weight.value).dims;
  for (const plan::TensorUse& use : weight.uses) {
    const auto activation = activations_.find(use.node);
    if (activation == activations_.end()) continue;
    const plan::TensorPlan& row = *activation->second;
    const std::optional<ops::SumLayout> sums =
        ops::PairSums(nodes_.Find(use), static_cast<size_t>(use.input), dims, row.is_dynamic());
    if (!plan::IsMultipliedAsBytes(row) || !sums) continue;
    PairRule rule{*sums, {255}, {}, {}, use.node};
    // An LSTM multiplies R with its own states, which it quantizes itself.
    const bool is_calibrated = !row.is_dynamic() && use.input == 1;
    const auto known = is_calibrated ? channels_.find(row.value) : channels_.end();
    if (known != channels_.end()) {
      const auto num_channels =
          static_cast<size_t>(sums->num_sums / sums->sums_per_group * sums->channels);
      const plan::ChannelCodes& codes = known->second;
      if (codes.largest.size() == 1 || codes.largest.size() == num_channels) {
        rule.largest = codes.largest;
      }
      if (codes.mean_squares.size() == num_channels) {
        rule.costs = codes.mean_squares;
        rule.means = codes.means;
      }
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

uint64_t FitPairs(std::span<const PairRule> rules, std::span<const float> target,
                  std::span<int32_t> codes, ThreadPool& pool) {
  BITPRESS_DCHECK(codes.size() == target.size());
  uint64_t num_changed = 0;
  for (const PairRule& rule : rules) {
    const ops::SumLayout& sums = rule.sums;
    std::vector<uint64_t> changed(static_cast<size_t>(sums.num_sums));
    pool.ParallelFor(changed.size(), [&](size_t task) {
      const auto sum = static_cast<int64_t>(task);
      changed[task] = FitSum(
          rule, sum, [&](int64_t i) -> int32_t& { return codes[sums.ElementOf(sum, i)]; },
          [&](int64_t i) { return double{target[sums.ElementOf(sum, i)]}; });
    });
    for (const uint64_t count : changed) num_changed += count;
  }
  return num_changed;
}

void BalanceMeans(const PairRule& rule, std::span<const float> target, formats::CodeRange range,
                  std::span<int32_t> codes, ThreadPool& pool) {
  BITPRESS_DCHECK(codes.size() == target.size());
  BITPRESS_DCHECK(rule.means.empty() || rule.means.size() == rule.costs.size());
  const ops::SumLayout& sums = rule.sums;
  // Independent rounding errors add up to 0.29 sqrt(length) steps, and a move takes one of them
  // off. More moves would make up for an input that is larger than all others, at the cost of the
  // rest.
  const int most_moves = 1 + static_cast<int>(0.29 * std::sqrt(static_cast<double>(sums.length)));
  pool.ParallelFor(static_cast<size_t>(sums.num_sums), [&](size_t task) {
    const auto sum = static_cast<int64_t>(task);
    const auto length = static_cast<size_t>(sums.length);
    std::vector<double> errors(length), means(length, 1.0), variances(length, 1.0);
    double shift = 0;
    for (size_t i = 0; i < length; ++i) {
      const auto at = static_cast<int64_t>(i);
      const size_t element = sums.ElementOf(sum, at);
      const size_t channel = sums.ChannelOf(sum, at);
      errors[i] = codes[element] - double{target[element]};
      if (!rule.means.empty()) {
        means[i] = rule.means[channel];
        // Samples tell variances less well than they seem to.
        variances[i] =
            std::max(rule.costs[channel] - means[i] * means[i], 0.5 * rule.costs[channel]);
      }
      shift += means[i] * errors[i];
    }
    // Returns whether the code may have this value beside its neighbour.
    const auto fits = [&](size_t i, int32_t code) {
      if (code < range.quant_min || code > range.quant_max) return false;
      const size_t other = i ^ 1;
      if (other >= length) return true;
      const auto first = static_cast<int64_t>(i);
      const auto second = static_cast<int64_t>(other);
      return formats::FitsPairSum({code, codes[sums.ElementOf(sum, second)]},
                                  {rule.LargestOf(sums.ChannelOf(sum, first)),
                                   rule.LargestOf(sums.ChannelOf(sum, second))});
    };
    for (int move = 0; move < most_moves; ++move) {
      // The change of sum v e^2 + (sum m e)^2 by a step of one code against the shift.
      double least = -1e-9;
      size_t best = length;
      int32_t best_step = 0;
      for (size_t i = 0; i < length; ++i) {
        const int32_t step = shift * means[i] > 0 ? -1 : 1;
        const double change = variances[i] * (2 * errors[i] * step + 1) +
                              2 * shift * means[i] * step + means[i] * means[i];
        if (change >= least) continue;
        if (!fits(i, codes[sums.ElementOf(sum, static_cast<int64_t>(i))] + step)) continue;
        least = change;
        best = i;
        best_step = step;
      }
      if (best == length) return;
      codes[sums.ElementOf(sum, static_cast<int64_t>(best))] += best_step;
      errors[best] += best_step;
      shift += means[best] * best_step;
    }
  });
}

std::vector<QParams> ChoosePairSafeScales(std::span<const PairRule> rules,
                                          std::span<const float> values,
                                          std::vector<QParams> params,
                                          const formats::IntegerSpec& spec,
                                          const std::function<size_t(size_t)>& params_of,
                                          ThreadPool& pool) {
  const std::vector<std::vector<Sum>> sums_of = SumsOfParams(rules, params.size(), params_of);
  std::vector<ChosenScale> chosen(params.size());
  pool.ParallelFor(sums_of.size(), [&](size_t i) {
    chosen[i].params = params[i];
    if (!sums_of[i].empty()) chosen[i] = ChooseScale(Elements(sums_of[i], values), params[i], spec);
  });
  if (std::ranges::none_of(chosen, &ChosenScale::can_saturate)) return params;
  std::ranges::transform(chosen, params.begin(), &ChosenScale::params);
  return params;
}

PairLoss EstimatePairLoss(std::span<const PairRule> rules, std::span<const float> values,
                          std::span<const QParams> params, const formats::IntegerSpec& spec,
                          const std::function<size_t(size_t)>& params_of, ThreadPool& pool) {
  constexpr size_t kMostParams = 64;
  const std::vector<std::vector<Sum>> sums_of = SumsOfParams(rules, params.size(), params_of);
  const size_t num_tasks = std::min(kMostParams, sums_of.size());
  std::vector<PairLoss> losses(num_tasks);
  pool.ParallelFor(num_tasks, [&](size_t task) {
    const size_t i = task * sums_of.size() / num_tasks;
    if (sums_of[i].empty()) return;
    const Elements elements(sums_of[i], values);
    const ChosenScale chosen = ChooseScale(elements, params[i], spec);
    losses[task].fitting = chosen.cost;
    losses[task].nearest =
        Try(elements.WithoutActivation(), params[i], formats::SearchedCodes(spec)).cost;
    for (size_t pair = 0; pair < elements.sides[0].values.size(); ++pair) {
      for (const Side& side : elements.sides) {
        losses[task].weight_power += double{side.values[pair]} * side.values[pair];
      }
    }
  });
  PairLoss loss;
  for (const PairLoss& of_params : losses) {
    loss.nearest += of_params.nearest;
    loss.fitting += of_params.fitting;
    loss.weight_power += of_params.weight_power;
  }
  return loss;
}

}  // namespace bitpress::weights
