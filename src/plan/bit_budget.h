// The mean bits of a plan, and the setting mean_bits: layers get wider formats as long as the means
// stay within it. Weights count by their elements, as files hold them. An activation counts by the
// products that read it, as hardware computes them. Tables, biases, and constants of operators that
// do not multiply do not count. Pure.
#pragma once

#include <tuple>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/rule.h"

namespace bitpress::plan {

// The bits of an operand on average, scales of blocks included. 0: there is none.
struct MeanBits {
  double weights = 0;
  double activations = 0;
};
constexpr auto FieldsOf(const MeanBits*) {
  return std::tuple(
      Field{"weights", &MeanBits::weights, "Of an element of a weight. 0: there is none."},
      Field{"activations", &MeanBits::activations,
            "Of what a product reads of an activation. 0: there is none."});
}

// Returns the means of a plan for the model. Operands that stay float count with their 32 or 16
// bits. REQUIRES: the plan fits the model, whose shapes were inferred.
MeanBits MeanBitsOf(const QuantPlan& plan, const graph::Model& model);

// Returns the rules that give layers wider formats than the configuration of `plan` does, so that
// both means are mean_bits at most. `plan` has that configuration's formats. Layers get 6 bits as
// long as that fits: the first ones (those behind no other layer), then depthwise ones and those of
// the first quarter that are as small, in the order of the network, then the last ones, then the
// others. Of last and of other layers the small ones come first, and of those between the same
// powers of two the early ones. What is left gives first, depthwise and last layers 8 bits. Layers
// whose weight others read keep the weight's format. Throws Error(kInvalidArgument) if a format has
// no blocks, or if mean_bits is less than the bits of a format.
std::vector<Rule> WideningRules(const QuantPlan& plan, const graph::Model& model);

}  // namespace bitpress::plan
