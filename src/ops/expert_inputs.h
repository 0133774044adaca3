// The inputs of a mixture of experts: com.microsoft MoE, whose weights are floats, and QMoE, which
// reads codes. Each has up to three weights, fc1 to fc3, that are stacks of a matrix for each
// expert. Input 0 holds rows, input 1 the logits of the router. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

inline constexpr const char* kQMoe = "QMoE";

inline constexpr size_t kNumExpertWeights = 3;

// The inputs of one weight. Those that the operator does not have are 0.
struct ExpertInputs {
  size_t weight = 0;  // floats [experts, outputs, inputs] of a MoE, codes of a QMoE
  size_t bias = 0;    // [experts, outputs]
  size_t scales = 0;
  size_t zero_points = 0;
};
// Return the inputs of weight fc1 (number 0), fc2 (1) or fc3 (2) of a MoE and of a QMoE.
const ExpertInputs& InputsOfMoe(size_t number);
const ExpertInputs& InputsOfQMoe(size_t number);
// The first input of a QMoE behind those of its weights.
inline constexpr size_t kBehindExperts = 14;

// Returns the input's name, "" if the node does not have it.
std::string InputOrNone(const graph::Node& node, size_t input);

// Returns the bits of a weight's codes, as the attributes of a QMoE say them.
int64_t ExpertBits(const graph::Node& node, size_t number);
// Returns the attribute that says them for this weight alone: "fc1_expert_weight_bits".
std::string ExpertBitsAttribute(size_t number);

}  // namespace bitpress::ops
