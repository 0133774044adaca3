// The activation functions behind layers, as far as they have one number for each: what a layer's
// output is good for is what its function makes of it.
#pragma once

#include <optional>
#include <string>

#include "graph/model.h"

namespace bitpress::finetune {

struct ActivationFunction {
  enum class Kind { kClip, kLeakyRelu, kHardSigmoid, kHardSwish, kSigmoid, kSilu, kTanh, kGelu };
  Kind kind = Kind::kClip;
  // kClip: the bounds (Relu has 0 and infinity); kLeakyRelu: a is the slope below 0; kHardSigmoid,
  // kHardSwish: slope and offset of the sigmoid.
  float a = 0;
  float b = 0;

  float Apply(float x) const;
  float Slope(float x) const;  // its derivative
};

// The function that alone reads a value: Relu, Clip with constant bounds, LeakyRelu, HardSigmoid,
// HardSwish, Sigmoid, Tanh or Gelu, or x * Sigmoid(x) and x * HardSigmoid(x). Nothing where
// something else reads it too.
std::optional<ActivationFunction> FindActivation(const graph::Model& model,
                                                 const std::string& value);

}  // namespace bitpress::finetune
