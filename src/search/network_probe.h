// The float model in which the outputs of one layer can be replaced while it runs. Sensitivity
// measures with it what a change of one layer does to the outputs of the model, without making a
// session for each layer.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::search {

// The values of a layer in one run, without constants.
struct LayerValues {
  std::vector<Tensor> inputs;   // in the order of NetworkProbe::Layer
  std::vector<Tensor> outputs;  // of the float layer, likewise
};

// Not thread-safe.
class NetworkProbe {
 public:
  // The names of a layer's inputs that are no constants, and of its outputs.
  struct Layer {
    std::vector<std::string> inputs, outputs;
  };
  // `layers` are nodes of `model`, the float model, and are called by their positions from here on.
  // Throws Error as runtime::Session.
  NetworkProbe(const graph::Model& model, std::span<const graph::Node> layers, size_t num_threads);
  ~NetworkProbe();
  NetworkProbe(const NetworkProbe&) = delete;
  NetworkProbe& operator=(const NetworkProbe&) = delete;

  // Returns why a layer cannot be replaced, or "".
  const std::string& WhyNot(size_t layer) const { return why_not_[layer]; }
  // Returns the names of the model's outputs, in the order of the results.
  std::vector<std::string> OutputNames() const;

  // Runs the float model on a sample.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs);
  // Makes the outputs of a layer from its inputs. One of the float layer's outputs is known, others
  // may be empty.
  using Replace = std::function<std::vector<Tensor>(const LayerValues& known)>;
  // Runs the model with the outputs of a layer replaced. Returns the outputs of the model, and in
  // `values` those of the float layer, unless that is null. Throws Error(kUnsupported) if the layer
  // does not run, and Error(kRuntime) if running fails. REQUIRES: WhyNot(layer) is "".
  std::vector<Tensor> RunWith(const std::vector<Tensor>& inputs, size_t layer,
                              const Replace& replace, LayerValues* values);

 private:
  class Sink;
  class Replacing;

  std::vector<Layer> names_;
  std::vector<std::string> why_not_;
  std::vector<std::string> input_names_;  // of the model
  std::unique_ptr<Sink> sink_;
  runtime::ObserverOperators operators_;
  std::unique_ptr<runtime::Session> session_;
};

// Returns the computed inputs and the outputs of a node.
NetworkProbe::Layer ValuesOf(const graph::Model& model, const graph::Node& node);

}  // namespace bitpress::search
