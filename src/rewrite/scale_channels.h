// Scales the channels of layers (ops/layer_channels.h) by changing their constants.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "graph/model.h"
#include "ops/layer_channels.h"

namespace bitpress::rewrite {

// The largest magnitude at each [row, column] of the weight; nothing if it is not finite.
std::optional<std::vector<float>> Magnitudes(const graph::Model& model,
                                             const ops::ChannelLayer& layer);

// Multiplies the weight's elements by `inputs[channel]` and divides them by `outputs[channel]`;
// either may be empty.
void ScaleWeight(graph::Model& model, const ops::ChannelLayer& layer,
                 std::span<const double> inputs, std::span<const double> outputs);

// Divides a vector of one element a channel, the input of `node`.
void DivideVector(graph::Model& model, graph::Node node, size_t input,
                  std::span<const double> factors);

}  // namespace bitpress::rewrite
