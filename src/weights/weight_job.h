// One weight on its way from floats to what is stored: quantized and dequantized, measured, packed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// What became of one weight.
struct WeightStatistics {
  std::string value;      // its name in the plan
  std::string quantized;  // its name in the model now
  std::string format;
  // Why it is stored as floats that hold quantized values; empty where it is packed.
  std::string unpacked_reason;
  int64_t num_elements = 0;
  uint64_t stored_bytes = 0;
  // Pairs of codes that are not those next to the weight, because their sum would saturate.
  uint64_t num_fitted_pairs = 0;
  // Known once the model has been written.
  double mean_squared_error = 0;
  double sqnr_db = 0;  // of the quantized values; +infinity without any error
};

// Fills in the errors of quantized values y. The same for any number of threads.
void MeasureErrors(std::span<const float> x, std::span<const float> y, ThreadPool& pool,
                   WeightStatistics& statistics);

// What a scaled weight is divided by: its largest magnitude / plan::ScaledMaximum, or 1 where that
// is no normal number.
float ScaleOf(const formats::FormatSpec& spec, std::span<const float> values);

class WeightJob {
 public:
  // `reader` is a node that reads the weight, for messages. `scale`: that of a scaled weight, if it
  // is not to follow from its largest magnitude. REQUIRES: plan::CheckFits passed.
  WeightJob(graph::HeldInitializer source, const plan::TensorPlan& row, plan::OperatorSet operators,
            std::string reader, std::optional<float> scale = std::nullopt);

  // The format as it is stored: what an operator set adds to it beyond what codes can hold is left
  // out.
  const formats::FormatSpec& spec() const { return spec_; }
  const BlockView& view() const { return view_; }
  const graph::HeldInitializer& source() const { return source_; }
  // Whether the weight is divided by a scale.
  bool is_scaled() const { return is_scaled_; }
  bool is_half() const { return source_.type == DataType::kFloat16; }

  // Both fill in the errors of `statistics` and use the pool's threads; results do not depend on
  // their number. Throw Error(kInvalidModel) naming reader, tensor and index of the first NaN or
  // infinity. Float16 weights are computed in float32.
  //
  // The quantized and dequantized values, in the type of the source.
  Tensor Simulate(ThreadPool& pool, WeightStatistics& statistics) const;
  // The parts of `storage`, in order; if is_scaled(), codes of the weight / scale, and the scale.
  std::vector<Tensor> Pack(const std::vector<PackedStorage::Initializer>& parts, ThreadPool& pool,
                           WeightStatistics& statistics) const;

 private:
  void CheckFinite(ThreadPool& pool) const;
  // Into `y`, one float an element, divided by the scale that it gives.
  float Quantize(ThreadPool& pool, std::span<float> y, WeightStatistics& statistics) const;

  graph::HeldInitializer source_;
  std::string value_;
  std::string role_;
  std::string reader_;
  formats::FormatSpec spec_;
  BlockView view_;
  bool is_scaled_ = false;
  std::optional<float> given_scale_;
};

}  // namespace bitpress::weights
