#include "ops/layer_channels.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

using graph::Model;
using graph::Node;

ChannelMap Rows(size_t num_rows) { return {.is_row = true, .num_channels = num_rows}; }

ChannelMap Columns(size_t num_rows, size_t num_columns, size_t num_groups = 1) {
  return {.is_row = false,
          .rows_per_group = std::max<size_t>(1, num_rows / num_groups),
          .num_columns = num_columns,
          .num_channels = num_columns * num_groups};
}

// Fills in the geometry; returns why it cannot, or "".
std::string Describe(const Node& node, std::span<const int64_t> dims, ChannelLayer& layer) {
  layer.rank = dims.size();
  const OperatorTraits& traits = TraitsOf(node);
  layer.is_convolution = traits.is_convolution();
  if (layer.is_convolution ? dims.size() < 3 : dims.size() != 2) {
    return fmt::format("its weight has rank {}", dims.size());
  }
  layer.num_rows = static_cast<size_t>(dims[0]);
  layer.num_columns = static_cast<size_t>(dims[1]);
  layer.inner = static_cast<size_t>(NumElements(dims.subspan(2)));
  if (layer.num_rows == 0 || layer.num_columns == 0 || layer.inner == 0) {
    return "its weight has no elements";
  }
  const ChannelMap rows = Rows(layer.num_rows);
  if (layer.is_convolution) {
    const int64_t group = node.GetInt("group", 1);
    if (group < 1 || dims[0] % group != 0) return "its group does not divide its channels";
    const ChannelMap columns =
        Columns(layer.num_rows, layer.num_columns, static_cast<size_t>(group));
    const bool is_transposed = traits.product == Product::kConvTranspose;
    layer.inputs = is_transposed ? rows : columns;
    layer.outputs = is_transposed ? columns : rows;
    return "";
  }
  if (node.GetInt("transA", 0) != 0) return "it transposes its input";
  const ChannelMap columns = Columns(layer.num_rows, layer.num_columns);
  const bool is_transposed = node.GetInt("transB", 0) != 0;
  layer.inputs = is_transposed ? columns : rows;
  layer.outputs = is_transposed ? rows : columns;
  return "";
}

}  // namespace

std::optional<ChannelLayer> LayerOf(const Model& model, const Node& node, std::string& reason) {
  reason.clear();
  if (!node.domain().empty() || !TraitsOf(node).is_product()) return std::nullopt;
  ChannelLayer layer{.node = node, .weight = node.input(1), .bias = {}};
  if (!model.IsInitializer(layer.weight)) {
    reason = "its weight is no constant";
    return std::nullopt;
  }
  const graph::InitializerView weight = model.Initializer(layer.weight);
  if (weight.type != DataType::kFloat) {
    reason = fmt::format("its weight is {}", DataTypeName(weight.type));
    return std::nullopt;
  }
  reason = Describe(node, weight.dims, layer);
  if (!reason.empty()) return std::nullopt;
  if (TraitsOf(node).product != Product::kMatMul && node.num_inputs() > 2)
    layer.bias = node.input(2);
  return layer;
}

}  // namespace bitpress::ops
