// The forms in which a quantized weight lies in a model: floats, packed codes with a function that
// decodes them, or codes with a DequantizeLinear. The data are computed while the model is written,
// one weight at a time. Not thread-safe; what it defers uses its arguments' copies only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "graph/model.h"
#include "weights/unpack_functions.h"
#include "weights/weight_job.h"

namespace bitpress::weights {

class WeightStore {
 public:
  // Nodes are inserted before the model's first. `sink` is told of each weight that is done.
  WeightStore(graph::Model& model, ProgressSink sink);

  void set_num_weights(size_t num_weights) { progress_->num_weights = num_weights; }

  // Tells the sink of one more.
  std::function<void()> Step() const {
    return [progress = progress_] { progress->Step(); };
  }

  // An initializer of the type and shape of `source`.
  void StoreFloats(const std::string& target, const graph::HeldInitializer& source,
                   std::function<Tensor()> compute, WeightStatistics& statistics);
  // `<target>_<suffix>` for each part and the Unpack node, behind it a Cast if `source` is FLOAT16.
  // `compute` gives the bytes of the parts in their order; what it gives behind them is not stored,
  // but with `is_scaled` the next one is `<target>_scale`, which what is decoded is multiplied by.
  void StorePacked(const std::string& target, const graph::HeldInitializer& source,
                   const PackedStorage& packed, graph::TensorProducer compute,
                   WeightStatistics& statistics, bool is_scaled = false);

  struct Dequantization {
    DataType type = DataType::kInt8;
    std::vector<int64_t> dims;
    std::vector<int64_t> scale_dims;  // none: one scale
    int64_t axis = 0;
    int64_t block_size = 0;  // 0: not by blocks
  };
  // `<target>_codes`, `_scale`, `_zero_point` -> DequantizeLinear -> target. `compute` gives the
  // three.
  void StoreDequantized(const std::string& target, const Dequantization& form,
                        graph::TensorProducer compute, WeightStatistics& statistics);

 private:
  // Counts the weights that are done while the model is written.
  struct Progress {
    ProgressSink sink;
    size_t num_done = 0;
    size_t num_weights = 0;
    void Step();
  };
  void Describe(const std::string& value, DataType type, const std::vector<int64_t>& dims);

  graph::Model& model_;
  std::optional<graph::Node> first_node_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace bitpress::weights
