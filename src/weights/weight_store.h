// The store that puts quantized weights into a model, as floats, as packed codes with a function
// that decodes them, or as codes with a DequantizeLinear. Passes give it functions that compute the
// data; these run while the model is written, one weight at a time. Not thread-safe; deferred
// functions use copies of its arguments only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bitpress/progress.h"
#include "graph/model.h"
#include "weights/standard_form.h"
#include "weights/unpack_functions.h"
#include "weights/weight_job.h"

namespace bitpress::weights {

// The store of one model.
class WeightStore {
 public:
  // Inserts nodes before the model's first. `sink` is told of each weight that is done.
  WeightStore(graph::Model& model, ProgressSink sink);

  void set_num_weights(size_t num_weights) { progress_->num_weights = num_weights; }

  // Returns a function that tells the sink of one more weight.
  std::function<void()> Step() const {
    return [progress = progress_] { progress->Step(); };
  }

  // Stores an initializer of the type and shape of `source`.
  void StoreFloats(const std::string& target, const graph::HeldInitializer& source,
                   std::function<Tensor()> compute, WeightStatistics& statistics);
  // Stores `<target>_<suffix>` for each part, and the Unpack node, with a Cast behind it if
  // `source` is FLOAT16. `compute` gives the bytes of the parts in their order. If `is_scaled`, the
  // next tensor is
  // `<target>_scale`, which the decoded values are multiplied by. Further tensors are not stored.
  void StorePacked(const std::string& target, const graph::HeldInitializer& source,
                   const PackedStorage& packed, graph::TensorProducer compute,
                   WeightStatistics& statistics, bool is_scaled = false);

  // Stores a weight in its standard form: `<target>_codes`, `_scale` and `_zero_point` ->
  // DequantizeLinear -> target, or codes and a Cast. If scales have one of their own, they are
  // `<target>_block_scale` -> DequantizeLinear with `<target>_scale`. A Slice and a Reshape follow
  // where the codes have other dimensions than the weight. `compute` gives the bytes in this order,
  // as EncodeStandard does.
  void StoreStandard(const std::string& target, const graph::HeldInitializer& source,
                     const StandardForm& form, graph::TensorProducer compute,
                     WeightStatistics& statistics);

 private:
  // Counts the weights that are done while the model is written.
  struct Progress {
    ProgressSink sink;
    size_t num_done = 0;
    size_t num_weights = 0;
    void Step();
  };
  // Stores tensors that `compute` gives the bytes of, counts their bytes, and releases the weight
  // that they were made of.
  void Defer(const std::vector<graph::DeferredTensor>& tensors,
             const graph::HeldInitializer& source, graph::TensorProducer compute,
             WeightStatistics& statistics);
  // Inserts the node that makes floats of codes, and those that give them the dimensions of the
  // weight.
  void InsertDecoder(graph::NodeSpec node, const std::string& target, const StandardForm& form,
                     const std::vector<int64_t>& dims);
  // Stores constants of operators, and returns the name.
  std::string StoreIndices(const std::string& name, const std::vector<int64_t>& values);
  void Describe(const std::string& value, DataType type, const std::vector<int64_t>& dims);

  graph::Model& model_;
  std::optional<graph::Node> first_node_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace bitpress::weights
