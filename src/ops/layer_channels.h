// The layers whose channels can be scaled by changing constants: Conv, ConvTranspose, Gemm and
// MatMul with a constant weight. Equalization and SmoothQuant ask here which element of a weight
// belongs to which channel. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

// The map from the elements of a weight, seen as [rows, columns, inner], to channels. A channel has
// the elements of one row, of one column, or, in grouped convolutions, of one column in the rows of
// one group.
struct ChannelMap {
  bool is_row = false;        // each row is a channel
  size_t rows_per_group = 0;  // only if not is_row
  size_t num_columns = 0;
  size_t num_channels = 0;

  // Returns the channel of the elements at [row, column].
  size_t Of(size_t row, size_t column) const {
    return is_row ? row : row / rows_per_group * num_columns + column;
  }
};

// A layer whose channels can be scaled.
struct ChannelLayer {
  graph::Node node;
  std::string weight;
  std::string bias;  // "" without one
  size_t num_rows = 0;
  size_t num_columns = 0;
  size_t inner = 0;
  ChannelMap inputs = {};
  ChannelMap outputs = {};
  bool is_convolution = false;  // channels of its activations lie along axis 1, else the last axis
  size_t rank = 0;              // rank of its weight, and of a convolution's activations
};

// Returns the layer that `node` is, or nothing. In that case `reason` says why if the node is one
// of the four operators, and is empty otherwise.
std::optional<ChannelLayer> LayerOf(const graph::Model& model, const graph::Node& node,
                                    std::string& reason);

}  // namespace bitpress::ops
