#include "ops/expert_inputs.h"

#include <fmt/format.h>

namespace bitpress::ops {
namespace {

constexpr ExpertInputs kMoeInputs[kNumExpertWeights] = {
    {.weight = 2, .bias = 3}, {.weight = 4, .bias = 5}, {.weight = 6, .bias = 7}};
constexpr ExpertInputs kQMoeInputs[kNumExpertWeights] = {
    {.weight = 2, .bias = 4, .scales = 3, .zero_points = 11},
    {.weight = 5, .bias = 7, .scales = 6, .zero_points = 12},
    {.weight = 8, .bias = 10, .scales = 9, .zero_points = 13}};

}  // namespace

const ExpertInputs& InputsOfMoe(size_t number) { return kMoeInputs[number]; }
const ExpertInputs& InputsOfQMoe(size_t number) { return kQMoeInputs[number]; }

std::string InputOrNone(const graph::Node& node, size_t input) {
  return input < node.num_inputs() ? node.input(input) : "";
}

std::string ExpertBitsAttribute(size_t number) {
  return fmt::format("fc{}_expert_weight_bits", number + 1);
}

int64_t ExpertBits(const graph::Node& node, size_t number) {
  return node.GetInt(ExpertBitsAttribute(number), node.GetInt("expert_weight_bits", 4));
}

}  // namespace bitpress::ops
