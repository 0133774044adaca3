// One layer of a model by itself, in float and with the formats of a plan. Sensitivity measures
// with it how far a change of the layer's formats goes beside its own output, and how long it
// takes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "emit/apply_plan.h"
#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::search {

// The probe of one layer. Not thread-safe.
class LayerProbe {
 public:
  // `model` is the float model, and `node` one of its nodes; both must outlive this.
  LayerProbe(const graph::Model& model, const graph::Node& node, size_t num_threads);

  // The purpose of a session of a quantized layer: its values, which weights stored as floats give
  // on every processor, or its time with the operators that such a layer gets if they are there.
  enum class Purpose { kValues, kTime };
  // The layer with what the rows of `plan` say about this node; the others do not count.
  // `plan` must outlive the model's writing.
  runtime::Session OpenVariant(const plan::ResolvedPlan& resolved, Purpose purpose,
                               ThreadPool& pool) const;
  // The layer as it is.
  runtime::Session OpenFloat() const;

  // Runs a session of the layer. `inputs` are those of ValuesOf (network_probe.h).
  std::vector<Tensor> Run(runtime::Session& session, const std::vector<Tensor>& inputs) const;
  // Returns the number of multiply-add pairs that made these outputs of those inputs.
  double CountMacs(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const;

 private:
  std::vector<int64_t> DimsOf(const std::string& value, const std::vector<Tensor>& inputs) const;

  const graph::Model& model_;
  graph::Node node_;
  std::string key_;  // the node's key in plans
  size_t num_threads_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
};

}  // namespace bitpress::search
