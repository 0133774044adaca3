// A probe of one layer of a model, with which sensitivity measures the layer changed alone. The
// nodes before the layer run once a sample, the layer runs in each of its variants, and the nodes
// behind it run once for each result of the layer.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "emit/apply_plan.h"
#include "evaluate/outputs.h"
#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::search {

// The probe of one layer. Not thread-safe.
class LayerProbe {
 public:
  // `model` is the float model, and `node` one of its nodes; both must outlive this. Throws Error
  // if the model cannot be cut around the node, because a value there is no tensor.
  LayerProbe(const graph::Model& model, const graph::Node& node, size_t num_threads);

  // What a session of a quantized layer is for: its values, which weights stored as floats give on
  // every processor, or its time with the operators that such a layer gets if they are there.
  enum class Purpose { kValues, kTime };
  // The layer with what the rows of `plan` say about this node; the others do not count.
  // `plan` must outlive the model's writing.
  runtime::Session OpenVariant(const plan::ResolvedPlan& resolved, Purpose purpose,
                               ThreadPool& pool) const;
  // The layer as it is.
  runtime::Session OpenFloat() const;

  // Runs the nodes before the layer. `inputs` are those of the model, in its order.
  void SetSample(std::span<const Tensor> inputs);
  // Returns the layer's outputs for that sample.
  std::vector<Tensor> RunLayer(runtime::Session& session) const;
  // Returns the number of multiply-add pairs that made these outputs of that sample.
  double CountMacs(const std::vector<Tensor>& layer_outputs) const;
  // Returns the outputs of the model, in its order, if the layer gives `layer_outputs`.
  std::vector<evaluate::Output> RunRest(std::vector<Tensor> layer_outputs);

 private:
  void FindRest();
  std::vector<int64_t> DimsOf(const std::string& value) const;
  std::vector<Tensor> Gather(const std::vector<runtime::ValueDescription>& wanted) const;

  const graph::Model& model_;
  graph::Node node_;
  std::string key_;  // the node's key in plans
  size_t num_threads_;
  std::vector<std::string> layer_inputs_;  // computed values and inputs of the model
  std::vector<std::string> layer_outputs_;
  std::vector<std::string> rest_inputs_;   // inputs of the rest besides layer_outputs_
  std::vector<std::string> rest_outputs_;  // outputs of the model that the layer has a part in
  std::optional<runtime::Session> before_, rest_;
  std::map<std::string, Tensor> values_;  // values of the sample, by name
};

}  // namespace bitpress::search
