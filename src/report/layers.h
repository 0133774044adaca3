// The layers of a float model, and where they are in the quantized one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "report/report.h"

namespace bitpress::report {

// A node that multiplies, or that reads another weight: a constant of floats with two dimensions or
// more, such as a table of embeddings.
struct MatchedLayer {
  graph::Node node;                      // of the float model
  std::string name;                      // as plans name it
  std::vector<size_t> weights;           // inputs that are constants of the float model
  std::optional<graph::Node> quantized;  // what computes it in the quantized model
  // What the quantized model gives in place of the first output, before it is quantized; "" if no
  // value does, as where integers go on.
  std::string quantized_output;
};

// In graph order. A layer is known by its output, which quantizers of every tool leave its name, or
// by its name.
std::vector<MatchedLayer> FindLayers(const graph::Model& reference, const graph::Model& quantized);

struct WeightOptions {
  // Not empty: weights of the models cannot be compared, and this is why.
  std::string incomparable;
  ProgressSink progress;  // may be empty; counts layers
};

// Reads the weights of both models one by one: fills in `layers` (all but errors of outputs) and
// adds each weight to `tensors` once. Throws Error as ReadInput does.
void DescribeLayers(const graph::Model& reference, const graph::Model& quantized,
                    const std::vector<MatchedLayer>& found, const WeightOptions& options,
                    ThreadPool& pool, std::vector<LayerReport>& layers,
                    std::vector<TensorReport>& tensors);

}  // namespace bitpress::report
