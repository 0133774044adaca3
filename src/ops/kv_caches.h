// The key-value caches of decoders: keys and values of earlier positions come in as inputs of the
// model, and leave it with those of the new positions as outputs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

struct KvCache {
  graph::Node node;  // puts the new positions behind the earlier ones
  // The node's input and output of the cache. The input is one of the model, the output too.
  size_t past = 0;
  size_t present = 0;
  // The node's input of the new positions, if they enter the cache as they are there. Attention
  // that turns its keys by their positions, or splits them from queries and values, has none.
  std::optional<size_t> appended;
  int64_t channel_axis = -1;  // axis of a head's channels
  // The operator itself reads and writes caches of integers with scales for each head and channel
  // (GroupQueryAttention).
  bool takes_integers = false;

  const std::string& past_value() const { return node.input(past); }
  const std::string& present_value() const { return node.output(present); }
};

// Returns the caches in the order of their nodes, keys before values. Knows ONNX Runtime's
// GroupQueryAttention and MultiHeadAttention, ONNX's Attention, and a Concat of an input of the
// model. Bodies of If, Loop and Scan have none.
std::vector<KvCache> FindKvCaches(const graph::Model& model);

}  // namespace bitpress::ops
