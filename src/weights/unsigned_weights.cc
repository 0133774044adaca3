#include "weights/unsigned_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "plan/pair_safety.h"
#include "weights/integer_weight.h"
#include "weights/pair_rules.h"

namespace bitpress::weights {
namespace {

constexpr double kLeastLossDb = 2;
// Products with uint8 weights take up to 2.7 times as long (docs/integer_kernels.md), so a network
// gets slower by a sixth at most.
constexpr double kMostProducts = 0.1;

struct Candidate {
  plan::TensorPlan* row;
  double lost_db = 0;
  double num_products = 0;  // a number that grows with them
};

// By how many dB the noise of the outputs grows once pairs fit. `activation_noise`: what rounding
// changes in an element of the activation, in units of PairRule::costs.
double LostDb(const PairLoss& loss, double activation_noise) {
  const double of_activation = activation_noise * loss.weight_power;
  if (!(loss.fitting > loss.nearest)) return 0;
  return 10 * std::log10((loss.fitting + of_activation) / (loss.nearest + of_activation));
}

// Returns the number of input positions that a node moves on for each output position.
double InputsOfOutput(const graph::Node& node) {
  double stride = 1;
  for (const int64_t step : node.GetInts("strides")) stride *= static_cast<double>(step);
  return stride;
}

}  // namespace

void ChooseUnsignedWeights(plan::ResolvedPlan& resolved, const graph::Model& model,
                           ThreadPool& pool) {
  plan::QuantPlan& plan = resolved.plan;
  const plan::NodeIndex nodes(model);
  const PairRules pair_rules(plan, model, resolved.channels);
  const auto activations = plan::ActivationsOfNodes(plan);
  std::vector<Candidate> candidates;
  double num_products = 0;
  for (plan::TensorPlan& row : plan.tensors) {
    if (row.role != plan::Role::kWeight || !row.integer || row.uses.empty()) continue;
    const auto reads = activations.find(row.uses.front().node);
    if (reads == activations.end() || !model.IsInitializer(row.value)) continue;
    const plan::TensorPlan& activation = *reads->second;
    // A calibrated activation that stays float multiplies no integers.
    if (!activation.is_dynamic() && !resolved.scales.contains(plan::ScaleKeyOf(activation)))
      continue;
    const auto found = resolved.channels.find(activation.value);
    const bool is_known = found != resolved.channels.end() && found->second.num_reads > 0;
    graph::HeldInitializer weight = model.HoldInitializer(row.value);
    Candidate candidate{&row};
    candidate.num_products = static_cast<double>(NumElements(weight.dims));
    double noise = 0;
    if (is_known) {
      noise = found->second.squared_error;
      candidate.num_products *= static_cast<double>(found->second.num_reads) /
                                InputsOfOutput(nodes.Find(row.uses.front()));
    }
    num_products += candidate.num_products;
    if (!row.integer->may_be_unsigned || row.integer->params ||
        !row.integer->channel_params.empty()) {
      continue;
    }
    const std::vector<PairRule> rules = pair_rules.For(row);
    if (rules.empty()) continue;
    const IntegerWeight integers(std::move(weight), row, row.uses.front().node, {}, {}, rules);
    candidate.lost_db = LostDb(integers.LossOfPairs(pool), noise);
    if (candidate.lost_db > kLeastLossDb) candidates.push_back(candidate);
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::lost_db);
  double num_left = kMostProducts * num_products;
  for (const Candidate& candidate : candidates) {
    if (candidate.num_products > num_left) continue;
    num_left -= candidate.num_products;
    plan::TensorPlan& row = *candidate.row;
    const IntegerWeight any(model.HoldInitializer(row.value), row, row.uses.front().node);
    std::vector<formats::QParams> codes = any.Params(pool);
    for (formats::QParams& code : codes) code.zero_point += 128;
    row.format = "uint8";
    row.integer->is_pair_safe = false;
    row.integer->may_be_unsigned = false;
    resolved.weight_scales[plan::ScaleKeyOf(row)] = std::move(codes);
    resolved.unsigned_weights.push_back({row.value, candidate.lost_db});
  }
}

}  // namespace bitpress::weights
