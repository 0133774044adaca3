// Divides a network into blocks that can learn by gradients one after another: a residual block, an
// inverted residual, an attention, an MLP, or a few layers in a row. For example:
//
//   for (const Segment& segment : FindBlocks(model, is_layer)) {
//     if (segment.is_block()) Learn(segment);
//   }
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gradients/block.h"
#include "graph/model.h"

namespace bitpress::gradients {

// Consecutive nodes of the main graph, without those that depend on no layer, such as the
// computation of a mask from a graph's input.
struct Segment {
  BlockNodes part;  // with the outputs that later nodes read, or that the graph gives
  // Values that the segment reads and does not compute: those of earlier segments, inputs of the
  // graph, and values that depend on no layer. Without constants.
  std::vector<std::string> inputs;
  size_t num_layers = 0;
  // Why the segment cannot learn, as "Shape 'shape1': operator Shape has no gradient". Empty: it
  // can, or has no layers.
  std::string reason;

  bool is_block() const { return num_layers > 0 && reason.empty(); }
};

// Returns whether a node is a norm of rows, or the first one of a norm's.
bool IsNorm(const graph::Node& node);

// Returns the segments in their order. `is_layer` says which nodes have weights that learn. Cuts
// lie where one value crosses, besides those that depend on no layer and those that skip many
// layers. Short parts without branches are joined until they have kLayersOfBlock layers.
inline constexpr size_t kLayersOfBlock = 3;
std::vector<Segment> FindBlocks(const graph::Model& model,
                                const std::function<bool(const graph::Node&)>& is_layer);

}  // namespace bitpress::gradients
