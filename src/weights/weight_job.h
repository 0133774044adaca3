// A weight on its way from floats to the bytes in the file: it is quantized, measured and packed.
// Passes that store weights in a block or float format use it; integer_weight.h is its twin for
// integers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// The report on one quantized weight.
struct WeightStatistics {
  std::string value;      // its name in the plan
  std::string quantized;  // its name in the model now
  std::string format;
  std::string unpacked_reason;
  std::string wider_type = {};  // the ONNX type of its codes if that has more bits than the format
  int64_t num_elements = 0;
  uint64_t stored_bytes = 0;
  // The number of pairs of codes that are not next to the weight, because their sum would saturate.
  uint64_t num_fitted_pairs = 0;
  // The errors of the quantized values, known once the model has been written.
  double mean_squared_error = 0;
  double sqnr_db = 0;
  uint64_t num_overflowed = 0;
  // Those of a head that reads this table, too: it gets the same errors. May be null.
  std::shared_ptr<WeightStatistics> tied = nullptr;
};
constexpr auto FieldsOf(const WeightStatistics*) {
  using Weight = WeightStatistics;
  return std::tuple(
      Field{"value", &Weight::value, "", "name"}, Field{"format", &Weight::format},
      Field{"num_elements", &Weight::num_elements}, Field{"stored_bytes", &Weight::stored_bytes},
      Field{"unpacked_reason", &Weight::unpacked_reason,
            "Why it is stored as floats that hold quantized values. '' if it is packed."},
      Field{"wider_type", &Weight::wider_type,
            "The ONNX type of its codes where that has more bits than the format: INT4 for int3. "
            "'' otherwise."},
      Field{"num_overflowed", &Weight::num_overflowed,
            "Elements beyond the largest value of the format, which they became."},
      Field{"mean_squared_error", &Weight::mean_squared_error},
      Field{"sqnr_db", &Weight::sqnr_db, "Infinite without any error."});
}

// Fills in the errors of quantized values y. The results are the same for any number of threads.
void MeasureErrors(std::span<const float> x, std::span<const float> y, ThreadPool& pool,
                   WeightStatistics& statistics);

// Returns the scale that a scaled weight is divided by: its largest magnitude /
// scaled_maximum, or 1 if that is no normal number.
float ScaleOf(const formats::FormatSpec& spec, std::span<const float> values);

// One weight. Thread-safe: it does not change.
class WeightJob {
 public:
  // Begins with the weight `source` of a plan's row; `reader` is a node that reads it, for
  // messages. `scale` is the scale of a scaled weight, unless it follows from the largest
  // magnitude. REQUIRES: plan::CheckFits passed.
  WeightJob(graph::HeldInitializer source, const plan::TensorPlan& row, plan::OperatorSet operators,
            std::string reader, std::optional<float> scale = std::nullopt);

  // Returns the format as it is stored: without the numbers of an operator set that codes cannot
  // hold.
  const formats::FormatSpec& spec() const { return spec_; }
  const BlockView& view() const { return view_; }
  // Returns the axis along which blocks lie, or the first one of those that they run over. 0 for a
  // format without blocks.
  size_t axis() const { return axis_; }
  const graph::HeldInitializer& source() const { return source_; }
  // Returns whether the weight is divided by a scale.
  bool is_scaled() const { return is_scaled_; }
  bool is_half() const { return source_.type == DataType::kFloat16; }

  // The next two fill in the errors of `statistics` and use the pool's threads; results do not
  // depend on their number. They throw Error(kInvalidModel) naming reader, tensor and index of the
  // first NaN or infinity. Float16 weights are computed in float32.
  //
  // Returns the quantized and dequantized values, in the type of the source.
  Tensor Simulate(ThreadPool& pool, WeightStatistics& statistics) const;
  // Returns the tensors of `parts` (PackedStorage::parts), in their order. If is_scaled(), the
  // codes are those of the weight / scale, and the scale follows.
  std::vector<Tensor> Pack(const std::vector<PackedStorage::Initializer>& parts, ThreadPool& pool,
                           WeightStatistics& statistics) const;

 private:
  void CheckFinite(ThreadPool& pool) const;
  // Quantizes the weight into `y`, one float an element, divided by the scale that it returns.
  float Quantize(ThreadPool& pool, std::span<float> y, WeightStatistics& statistics) const;

  graph::HeldInitializer source_;
  std::string value_;
  std::string role_;
  std::string reader_;
  formats::FormatSpec spec_;
  size_t axis_;
  BlockView view_;
  bool is_scaled_ = false;
  std::optional<float> given_scale_;
};

}  // namespace bitpress::weights
