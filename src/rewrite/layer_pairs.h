// Pairs of layers between which channels can be scaled (see equalize.h): the second one reads
// nothing but what the first one gives, through operators f with f(s x) = s f(x) for s > 0.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer_channels.h"

namespace bitpress::rewrite {

// An input of a node: a vector of one element a channel that is added in between.
struct AddedVector {
  graph::Node node;
  size_t input = 0;
};

struct LayerPair {
  ops::ChannelLayer first;
  ops::ChannelLayer second;
  std::vector<AddedVector> biases;  // the first layer's own, and those of Add nodes behind it
  std::optional<graph::Node> clip;  // a Clip(0, limit) in between that stops at its limit
  float clip_limit = 0;
};

struct LayerPairs {
  std::vector<LayerPair> pairs;  // in graph order of their first layers
  // Layers that are no first one of a pair, and why.
  std::vector<std::pair<std::string, std::string>> left_alone;
};

LayerPairs FindLayerPairs(const graph::Model& model);

}  // namespace bitpress::rewrite
