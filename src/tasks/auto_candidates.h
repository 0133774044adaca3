// The configurations that `auto` tries: a short list that suits the kind of network, what the
// samples allow and the target. Pure.
#pragma once

#include <string>
#include <vector>

#include "bitpress/quantize_options.h"
#include "ops/network_kind.h"
#include "plan/quant_config.h"
#include "tasks/auto_goals.h"

namespace bitpress::tasks {

struct AutoCandidate {
  std::string name;  // for people; `config` keeps the name of its preset
  plan::QuantConfig config;
  // It is tried only if none before it keeps all limits, because it takes long or is larger.
  bool is_reserve = false;
  // Products of many rows are summed in the fastest order (--fastest-sums).
  bool has_fastest_sums = false;
};

// Returns the configurations for a network, the usual one first. Without samples these need none
// and have 8 bits or more: what 4 bits lose has to be measured. Who wants the smallest gets one
// more.
std::vector<AutoCandidate> SuitableCandidates(ops::NetworkKind kind, bool has_samples,
                                              const Target& target, Want want);

// Returns a candidate that differs in the order of sums.
AutoCandidate WithFastestSums(AutoCandidate candidate);

// Returns INT8 as it is, then INT8 with learned roundings and weights, then INT8 with wider
// activations, then BF16: the order in which `autotune` tries them.
std::vector<AutoCandidate> LadderCandidates();

}  // namespace bitpress::tasks
