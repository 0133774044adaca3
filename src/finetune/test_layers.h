// Helpers of this room's tests: layers without a model, and their outputs, computed by the
// definitions of the operators.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "finetune/layer.h"
#include "finetune/moment_accumulator.h"
#include "formats/format_spec.h"
#include "plan/quant_plan.h"

namespace bitpress::finetune {

// The sizes of most layers.
inline constexpr int64_t kInputs = 40;
inline constexpr int64_t kOutputs = 12;

// Returns the row of a weight in a format, such as "fp8_e4m3" or "scaled fp8_e4m3".
inline plan::TensorPlan RowOf(const std::string& name) {
  const bool is_scaled = name.starts_with("scaled ");
  const std::string format = is_scaled ? name.substr(7) : name;
  plan::TensorPlan row;
  row.value = std::string("w");  // GCC 12 warns of an assigned literal
  row.role = plan::Role::kWeight;
  row.format = format;
  if (is_scaled) row.scaled.emplace();
  row.axis = 1;
  const formats::FormatSpec spec = formats::FindFormat(format);
  if (spec.is_integer()) {
    row.axis = 0;
    row.integer.emplace().granularity = plan::Granularity::kPerAxis;
  } else if (spec.is_blocked()) {
    row.scale_choice = formats::ScaleChoice::kMse;
  } else {
    row.axis.reset();
  }
  return row;
}

// Returns inputs whose channels depend on each other, so that rounding errors can compensate.
inline std::vector<float> MixedInputs(size_t count, uint32_t seed) {
  std::vector<float> x = RandomNormal(count * kInputs, seed);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % kInputs != 0) x[i] = 0.6F * x[i] + 0.8F * x[i - 1] + 0.3F;
  }
  return x;
}

// Return functions that run tasks one after another, from the first or from the last one.
inline runtime::ParallelTasks RunInOrder() {
  return [](size_t num_tasks, const std::function<void(size_t)>& task) {
    for (size_t i = 0; i < num_tasks; ++i) task(i);
  };
}
inline runtime::ParallelTasks RunBackwards() {
  return [](size_t num_tasks, const std::function<void(size_t)>& task) {
    for (size_t i = num_tasks; i-- > 0;) task(i);
  };
}

// Returns a layer y = x W' + b with weights [outputs, inputs].
inline LinearLayer GemmLayer(int64_t num_inputs, int64_t num_outputs,
                             const plan::TensorPlan* row = nullptr) {
  LinearLayer layer;
  layer.readings = {{"fc", 0, "", ""}};
  layer.op_type = "Gemm";
  layer.weight = std::string("w");
  layer.row = row;
  layer.layout = PositionLayout::kChannelsLast;
  layer.rows = num_outputs;
  layer.columns = num_inputs;
  layer.row_stride = num_inputs;
  layer.channel_stride = 1;
  layer.group_stride = num_inputs * num_outputs;
  return layer;
}

inline std::vector<float> ComputeGemm(const LinearLayer& layer, const std::vector<float>& x,
                                      const std::vector<float>& w, const std::vector<float>& b) {
  const auto columns = static_cast<size_t>(layer.columns);
  const auto rows = static_cast<size_t>(layer.rows);
  std::vector<float> y;
  for (size_t position = 0; position < x.size() / columns; ++position) {
    for (size_t row = 0; row < rows; ++row) {
      double sum = b.empty() ? 0.0 : double{b[row]};
      for (size_t k = 0; k < columns; ++k) {
        sum += double{w[row * columns + k]} * double{x[position * columns + k]};
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

inline Moments GemmMoments(const LinearLayer& layer, const std::vector<float>& x,
                           const std::vector<float>& y) {
  const int64_t count = static_cast<int64_t>(x.size()) / layer.columns;
  MomentAccumulator accumulator(layer);
  accumulator.Add(std::vector<int64_t>{count, layer.columns}, x.data(),
                  std::vector<int64_t>{count, layer.rows}, y.data(), RunInOrder());
  return accumulator.Finish(RunInOrder()).Finish();
}

}  // namespace bitpress::finetune
