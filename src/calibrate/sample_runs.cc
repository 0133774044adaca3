#include "calibrate/sample_runs.h"

#include <algorithm>
#include <optional>

#include "ops/batch.h"

namespace bitpress::calibrate {

size_t FixedRows(std::span<const runtime::ValueDescription> inputs) {
  ops::FixedBatch batch;
  for (const runtime::ValueDescription& input : inputs) batch.AddInput(input.dims);
  return batch.num_samples();
}

SampleCounts RunSamples(
    data::Source& source, std::span<const runtime::ValueDescription> inputs, size_t at_once,
    const std::function<void(const std::vector<Tensor>& inputs, size_t num_samples)>& run,
    std::string_view stage, const ProgressSink& progress) {
  SampleCounts counts;
  const auto run_counted = [&](const std::vector<Tensor>& tensors, size_t num_samples) {
    run(tensors, num_samples);
    counts.num_samples += num_samples;
  };
  const size_t per_run = std::max<size_t>(FixedRows(inputs), 1);
  const size_t read_at_once = (std::max(at_once, per_run) + per_run - 1) / per_run * per_run;
  source.Rewind();
  while (const std::optional<data::Batch> batch = source.Next(read_at_once)) {
    if (batch->HasRows()) {
      counts.num_left_out += batch->num_samples % per_run;
      for (size_t row = 0; row + per_run <= batch->num_samples; row += per_run) {
        if (per_run == batch->num_samples) {
          run_counted(batch->inputs, per_run);
          continue;
        }
        run_counted(batch->Rows(row, per_run).inputs, per_run);
      }
    } else if (batch->num_samples > 0) {
      run_counted(batch->inputs, batch->num_samples);
    }
    if (progress) progress(stage, counts.num_samples, source.num_samples());
  }
  return counts;
}

}  // namespace bitpress::calibrate
