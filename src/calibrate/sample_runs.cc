#include "calibrate/sample_runs.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
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
    std::string_view stage, const ProgressSink& progress, const FailureRules& rules) {
  SampleCounts counts;
  const size_t per_run = std::max<size_t>(FixedRows(inputs), 1);
  const size_t read_at_once = (std::max(at_once, per_run) + per_run - 1) / per_run * per_run;
  source.Rewind();
  while (const std::optional<data::Batch> batch = source.Next(read_at_once)) {
    if (rules.unread) std::ranges::for_each(batch->failed, rules.unread);
    const bool has_rows = batch->HasRows();
    const size_t run_size = has_rows ? per_run : batch->num_samples;
    const size_t num_runs = run_size == 0 ? 0 : batch->num_samples / run_size;
    counts.num_left_out += batch->num_samples - num_runs * run_size;
    const auto run_one = [&](size_t first) {
      if (run_size == batch->num_samples) return run(batch->inputs, run_size);
      run(batch->Rows(first, run_size).inputs, run_size);
    };
    std::vector<bool> has_failed(num_runs);
    for (size_t i = 0; i < num_runs; ++i) {
      if (has_failed[i]) continue;
      const size_t first = i * run_size;
      const std::string name = first < batch->names.size() ? batch->names[first] : "a sample";
      try {
        run_one(first);
      } catch (const Error& error) {
        if (!rules.failed || error.code() == ErrorCode::kIo) {
          throw data::ErrorOfSample(name, error);
        }
        rules.failed({name, error.what()});
        has_failed[i] = true;
        if (!rules.discard) continue;
        rules.discard();
        i = static_cast<size_t>(-1);  // from the first one again
      }
    }
    const auto num_failed = static_cast<size_t>(std::ranges::count(has_failed, true));
    counts.num_samples += (num_runs - num_failed) * run_size;
    if (rules.keep) rules.keep();
    if (progress) progress(stage, counts.num_samples, source.num_samples());
  }
  return counts;
}

}  // namespace bitpress::calibrate
