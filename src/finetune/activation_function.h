// The activation function behind a layer, if it works on each number alone. Fine-tuning uses it to
// measure errors of the layer's output behind the function.
#pragma once

#include <optional>
#include <string>

#include "graph/model.h"

namespace bitpress::finetune {

struct ActivationFunction {
  enum class Kind { kClip, kLeakyRelu, kHardSigmoid, kHardSwish, kSigmoid, kSilu, kTanh, kGelu };
  Kind kind = Kind::kClip;
  // kClip: lower and upper bound (Relu: 0 and infinity). kLeakyRelu: a is the slope below 0.
  // kHardSigmoid and kHardSwish: slope and offset of the sigmoid.
  float a = 0;
  float b = 0;

  float Apply(float x) const;
  float Slope(float x) const;  // derivative of Apply
};

// Returns the function that is the only reader of a value: Relu, Clip with constant bounds,
// LeakyRelu, HardSigmoid, HardSwish, Sigmoid, Tanh or Gelu, or x * Sigmoid(x) and
// x * HardSigmoid(x). Null if the value has another reader, or one more.
std::optional<ActivationFunction> FindActivation(const graph::Model& model,
                                                 const std::string& value);

}  // namespace bitpress::finetune
