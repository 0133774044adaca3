// The pair sums of one weight: which of its codes are added in saturating 16 bits on x86 processors
// without VNNI, what they meet there, and codes and scales with which nothing saturates.
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

// One node's reading of the weight.
struct PairRule {
  ops::SumLayout sums;
  std::vector<uint8_t> largest;    // activation code of each channel, or one for all
  std::vector<double> costs;       // of a squared error, of each channel; empty: 1
  std::vector<double> means = {};  // of the activation, of each channel; empty: not known
  std::string node = {};           // as plans name it

  int32_t LargestOf(size_t channel) const {
    return largest.size() == 1 ? largest[0] : largest[channel];
  }
  double CostOf(size_t channel) const { return costs.empty() ? 1.0 : costs[channel]; }
};

// The rules of a plan's rows.
class PairRules {
 public:
  // All must outlive it.
  PairRules(const plan::QuantPlan& plan, const graph::Model& model,
            const plan::ChannelCodesTable& channels);

  // Of a weight row; empty where it need not be pair-safe. REQUIRES: the model has not changed
  // since the construction.
  std::vector<PairRule> For(const plan::TensorPlan& weight) const;

 private:
  const graph::Model& model_;
  const plan::ChannelCodesTable& channels_;
  plan::NodeIndex nodes_;
  std::map<std::string, const plan::TensorPlan*> activations_;
};

// Makes all pair sums of a weight fit: `codes` (of int8) in the order of the weight, `target` the
// same before rounding, in code units. Returns how many pairs it changed. The same for any number
// of threads.
uint64_t FitPairs(std::span<const PairRule> rules, std::span<const float> target,
                  std::span<int32_t> codes, ThreadPool& pool);

// Moves codes by one where that lowers the expected square of an output's error: rounding errors
// whose sum, weighted with the means of the activation, is far from zero shift the output by as
// much at every inference. For weights to whose products no bias is added that could make up for
// it. Where the means are not known each input counts as if its mean were as large as its
// deviation. Pairs that fit still do. Arguments as FitPairs; `range` is that of the codes.
void BalanceMeans(const PairRule& rule, std::span<const float> target, formats::CodeRange range,
                  std::span<int32_t> codes, ThreadPool& pool);

// The parameters with the least cost once all pair sums fit: `params` as they are if nothing in the
// weight saturates with them, else each scale times the best 2^(i / 16) of 1 to 2, where every sum
// fits. A scale that only some values may be (ScaleKind) is the allowed one next to that.
// `params_of` says which of `params` an element has.
std::vector<formats::QParams> ChoosePairSafeScales(
    std::span<const PairRule> rules, std::span<const float> values,
    std::vector<formats::QParams> params, const formats::IntegerSpec& spec,
    const std::function<size_t(size_t element)>& params_of, ThreadPool& pool);

// What rounding costs the outputs of a weight, of up to 64 of them: mean squares of errors times
// PairRule::costs, added up.
struct PairLoss {
  double nearest = 0;       // of codes next to the weight
  double fitting = 0;       // of the scales and codes that fit
  double weight_power = 0;  // the squares of the weight itself, unweighted
};

// Arguments as ChoosePairSafeScales.
PairLoss EstimatePairLoss(std::span<const PairRule> rules, std::span<const float> values,
                          std::span<const formats::QParams> params,
                          const formats::IntegerSpec& spec,
                          const std::function<size_t(size_t element)>& params_of, ThreadPool& pool);

}  // namespace bitpress::weights
