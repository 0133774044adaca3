#include "rewrite/scale_channels.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/tensor.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// Writes new values of a constant that `node` reads: in place where nobody else reads it.
void Replace(Model& model, Node node, size_t input, Tensor tensor) {
  const std::string name = node.input(input);
  if (model.OnlyUse(name)) {
    model.SetInitializer(name, std::move(tensor));
    return;
  }
  const std::string copy = model.FreshName(name + "_scaled");
  model.SetInitializer(copy, std::move(tensor));
  node.set_input(input, copy);
}

Tensor FloatTensor(std::span<const int64_t> dims, std::vector<float> values) {
  const auto bytes = std::as_bytes(std::span<const float>(values));
  return {DataType::kFloat, {dims.begin(), dims.end()}, {bytes.begin(), bytes.end()}};
}

}  // namespace

std::optional<std::vector<float>> Magnitudes(const Model& model, const ops::ChannelLayer& layer) {
  const std::span<const float> values = model.Initializer(layer.weight).values<float>();
  std::vector<float> magnitudes(layer.num_rows * layer.num_columns);
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    for (const float value : values.subspan(i * layer.inner, layer.inner)) {
      if (!std::isfinite(value)) return std::nullopt;
      magnitudes[i] = std::max(magnitudes[i], std::abs(value));
    }
  }
  return magnitudes;
}

void ScaleWeight(Model& model, const ops::ChannelLayer& layer, std::span<const double> inputs,
                 std::span<const double> outputs) {
  BITPRESS_DCHECK(inputs.empty() || inputs.size() == layer.inputs.num_channels);
  BITPRESS_DCHECK(outputs.empty() || outputs.size() == layer.outputs.num_channels);
  const graph::InitializerView weight = model.Initializer(layer.weight);
  const std::span<const float> values = weight.values<float>();
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < scaled.size(); ++i) {
    const size_t cell = i / layer.inner;
    const size_t row = cell / layer.num_columns;
    const size_t column = cell % layer.num_columns;
    double factor = 1;
    if (!inputs.empty()) factor *= inputs[layer.inputs.Of(row, column)];
    if (!outputs.empty()) factor /= outputs[layer.outputs.Of(row, column)];
    scaled[i] = static_cast<float>(values[i] * factor);
  }
  Replace(model, layer.node, 1, FloatTensor(weight.dims, std::move(scaled)));
}

void MultiplyWeight(Model& model, ops::ChannelLayer& layer, const ops::ChannelMap& channels,
                    std::span<const float> factors, std::span<float> magnitudes) {
  BITPRESS_DCHECK(factors.size() == channels.num_channels);
  const graph::InitializerView weight = model.Initializer(layer.weight);
  const std::span<const float> values = weight.values<float>();
  std::vector<float> scaled(values.size());
  for (size_t cell = 0; cell < magnitudes.size(); ++cell) {
    const float factor = factors[channels.Of(cell / layer.num_columns, cell % layer.num_columns)];
    for (size_t i = cell * layer.inner; i < (cell + 1) * layer.inner; ++i) {
      scaled[i] = values[i] * factor;
    }
    magnitudes[cell] *= factor;
  }
  Replace(model, layer.node, 1, FloatTensor(weight.dims, std::move(scaled)));
  layer.weight = layer.node.input(1);
}

void MultiplyVector(Model& model, Node node, size_t input, std::span<const float> factors) {
  const graph::InitializerView vector = model.Initializer(node.input(input));
  const std::span<const float> values = vector.values<float>();
  BITPRESS_DCHECK(values.size() == factors.size());
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = values[i] * factors[i];
  Replace(model, node, input, FloatTensor(vector.dims, std::move(scaled)));
}

void DivideVector(Model& model, Node node, size_t input, std::span<const double> factors) {
  const graph::InitializerView vector = model.Initializer(node.input(input));
  const std::span<const float> values = vector.values<float>();
  BITPRESS_DCHECK(values.size() == factors.size());
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < scaled.size(); ++i) {
    scaled[i] = static_cast<float>(values[i] / factors[i]);
  }
  Replace(model, node, input, FloatTensor(vector.dims, std::move(scaled)));
}

}  // namespace bitpress::rewrite
