// The layers of a float model and their counterparts in the quantized one, for the layers and
// weights of a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "graph/model.h"
#include "report/report.h"

namespace bitpress::report {

// A layer in both models: a node that multiplies, or that reads another weight. Such a weight is a
// constant of floats with two dimensions or more, such as a table of embeddings.
struct MatchedLayer {
  graph::Node node;                      // the node of the float model
  std::string name;                      // its key, as plans name it
  std::vector<size_t> weights;           // its inputs that are constants of the float model
  std::optional<graph::Node> quantized;  // the node that computes it in the quantized model
  // The value that both models have: the first output, or that of the sum, limits or activation
  // behind it, if the quantized model computes these together with the layer.
  std::string output;
  // Its name in the quantized model, before it is quantized. "" if there is none, because the model
  // goes on with integers.
  std::string quantized_output;
};

// Returns all layers in graph order. A layer is recognized by its output, whose name quantizers of
// every tool keep, or by its own name. REQUIRES: no node of `quantized` computes with a packed
// weight (weights::ExpandPackedNodes).
std::vector<MatchedLayer> FindLayers(const graph::Model& reference, const graph::Model& quantized);

// The settings of DescribeLayers.
struct WeightOptions {
  // The reason why weights of the models cannot be compared; "": they can.
  std::string incomparable;
  ProgressSink progress;  // may be empty; counts layers
};

// Reads the weights of both models one by one. Fills in `layers`, all but the errors of outputs,
// and adds each weight to `tensors` once. Throws Error as ReadInput does.
void DescribeLayers(const graph::Model& reference, const graph::Model& quantized,
                    const std::vector<MatchedLayer>& found, const WeightOptions& options,
                    ThreadPool& pool, std::vector<LayerReport>& layers,
                    std::vector<TensorReport>& tensors);

}  // namespace bitpress::report
