// Functions that scale the channels of layers (ops/layer_channels.h) by changing their constants.
// Passes equalize and smooth use them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "graph/model.h"
#include "ops/layer_channels.h"

namespace bitpress::rewrite {

// Returns the largest magnitude at each [row, column] of the weight; nothing if any is not finite.
std::optional<std::vector<float>> Magnitudes(const graph::Model& model,
                                             const ops::ChannelLayer& layer);

// Multiplies the weight's elements by `inputs[channel]` and divides them by `outputs[channel]`.
// REQUIRES: each of the two is empty or has as many elements as the layer has channels there.
void ScaleWeight(graph::Model& model, const ops::ChannelLayer& layer,
                 std::span<const double> inputs, std::span<const double> outputs);

// Multiplies the weight's elements by `factors` of their channels in floats, and its magnitudes.
// The layer's weight may be a copy afterwards. REQUIRES: as many factors as channels.
void MultiplyWeight(graph::Model& model, ops::ChannelLayer& layer, const ops::ChannelMap& channels,
                    std::span<const float> factors, std::span<float> magnitudes);

// Multiplies a constant vector, input `input` of `node`, by `factors` in floats. REQUIRES: as many
// of both.
void MultiplyVector(graph::Model& model, graph::Node node, size_t input,
                    std::span<const float> factors);

// Divides a constant vector, input `input` of `node`, by `factors`. REQUIRES: as many of both.
void DivideVector(graph::Model& model, graph::Node node, size_t input,
                  std::span<const double> factors);

}  // namespace bitpress::rewrite
