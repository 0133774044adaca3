// The pairs of layers between which pass equalize scales channels (equalize.h). The second layer of
// a pair reads only the first layer's result, through operators f with f(s x) = s f(x) for s > 0.
// It is the second layer of one pair only. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer_channels.h"

namespace bitpress::rewrite {

// A vector of one element a channel that is added between the two layers, as an input of a node.
struct AddedVector {
  graph::Node node;
  size_t input = 0;
};

// Two layers, and what stands between them.
struct LayerPair {
  ops::ChannelLayer first;
  ops::ChannelLayer second;
  std::vector<AddedVector> biases;  // the first layer's own, and those of Add nodes behind it
  std::optional<graph::Node> clip;  // a Clip(0, limit) in between that stops at its limit
  float clip_limit = 0;
};

// All pairs of a model.
struct LayerPairs {
  std::vector<LayerPair> pairs;  // in graph order of their first layers
  // The layers that begin no pair, with the reason.
  std::vector<std::pair<std::string, std::string>> left_alone;
};

// Returns the pairs of a model.
LayerPairs FindLayerPairs(const graph::Model& model);

}  // namespace bitpress::rewrite
