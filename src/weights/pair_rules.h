// The pair rules of a weight: which of its codes are added in saturating 16 bits on x86 processors
// without VNNI, and which activations they meet there. Storing integer weights and fine-tuning ask
// here for codes and scales with which nothing saturates. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/pair_sums.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "ops/integer_kernels.h"
#include "plan/channel_codes.h"
#include "plan/pair_safety.h"
#include "plan/quant_plan.h"

namespace bitpress::weights {

// The sums of a weight in one node that reads it.
struct PairRule {
  ops::SumLayout sums;
  std::vector<uint8_t> largest;    // largest activation code of each channel, or one for all
  std::vector<double> costs;       // cost of a squared error in each channel; empty: 1
  std::vector<double> means = {};  // mean of the activation's channels; empty: not known
  std::string node = {};           // key of the node, as plans name it

  int32_t LargestOf(size_t channel) const {
    return largest.size() == 1 ? largest[0] : largest[channel];
  }
  double CostOf(size_t channel) const { return costs.empty() ? 1.0 : costs[channel]; }
};

// The rules of a plan's rows.
class PairRules {
 public:
  // The arguments must outlive it.
  PairRules(const plan::QuantPlan& plan, const graph::Model& model,
            const plan::ChannelCodesTable& channels);

  // Returns the rules of a weight row, one for each node that reads it; empty if the weight need
  // not be pair-safe. REQUIRES: the model has not changed since the construction.
  std::vector<PairRule> For(const plan::TensorPlan& weight) const;

 private:
  const graph::Model& model_;
  const plan::ChannelCodesTable& channels_;
  plan::NodeIndex nodes_;
  std::map<std::string, const plan::TensorPlan*> activations_;
};

// Changes codes so that all pair sums of a weight fit. `codes` (int8) lie in the order of the
// weight; `target` holds the same numbers before rounding, in code units. Returns the number of
// pairs that it changed. The result is the same for any number of threads.
uint64_t FitPairs(std::span<const PairRule> rules, std::span<const float> target,
                  std::span<int32_t> codes, ThreadPool& pool);

// Moves codes by one if that lowers the expected square of an output's error. Rounding errors whose
// sum, weighted with the means of the activation, is far from zero shift the output by as much at
// every inference. This is for weights whose products get no bias that could make up for it. If the
// means are not known, each input counts as if its mean were as large as its deviation. Pairs that
// fit still do. The arguments are those of FitPairs; `range` is that of the codes.
void BalanceMeans(const PairRule& rule, std::span<const float> target, formats::CodeRange range,
                  std::span<int32_t> codes, ThreadPool& pool);

// Returns the parameters with the least cost once all pair sums fit. If nothing in the weight
// saturates, they are `params`. Otherwise each scale is multiplied by the best 2^(i / 16) of 1 to
// 2; with a factor of 2 every sum fits. If not every scale is allowed (ScaleKind), the result is
// the allowed scale next to that. `params_of` gives the index in `params` of an element's
// parameters.
std::vector<formats::QParams> ChoosePairSafeScales(
    std::span<const PairRule> rules, std::span<const float> values,
    std::vector<formats::QParams> params, const formats::IntegerSpec& spec,
    const std::function<size_t(size_t element)>& params_of, ThreadPool& pool);

// The loss of rounding in up to 64 outputs of a weight: the sum of mean squared errors times
// PairRule::costs.
struct PairLoss {
  double nearest = 0;       // loss of codes next to the weight
  double fitting = 0;       // loss of the scales and codes that fit
  double weight_power = 0;  // sum of the weight's own squares, without costs
};

// Returns the loss of a weight. The arguments are those of ChoosePairSafeScales.
PairLoss EstimatePairLoss(std::span<const PairRule> rules, std::span<const float> values,
                          std::span<const formats::QParams> params,
                          const formats::IntegerSpec& spec,
                          const std::function<size_t(size_t element)>& params_of, ThreadPool& pool);

}  // namespace bitpress::weights
