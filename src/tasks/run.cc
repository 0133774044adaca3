#include "tasks/run.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "graph/stored_bytes.h"
#include "ops/time_axis.h"
#include "tasks/whole_items.h"

namespace bitpress::tasks {
namespace {

bool TakesWholeItems(const graph::Model& model, const RunOptions& run) {
  if (run.samples.whole_items || ops::HasTimeFirst(model)) return true;
  std::optional<bool>& found = *run.samples.found_whole;
  if (!found && run.samples.is_given()) found = RowsBelongTogether(model, run);
  return found.value_or(false);
}

}  // namespace

data::SourceOptions SourceFor(const graph::Model& model, const RunOptions& run) {
  data::SourceOptions source = data::ToSourceOptions(run.samples, model);
  source.use_whole_items = TakesWholeItems(model, run);
  source.read_ahead = true;
  source.num_threads = run.num_threads;
  return source;
}

void CheckSomeRan(size_t num_samples) {
  if (num_samples == 0) Fail(ErrorCode::kInvalidArgument, "all samples failed");
}

FileStamps StampsOf(const std::filesystem::path& model) {
  FileStamps stamps;
  stamps.Add(model);
  for (const std::string& location : graph::ExternalLocations(model)) {
    stamps.Add(model.parent_path() / PathOf(location));
  }
  return stamps;
}

data::Source& OpenedSamples::Open(
    const data::SampleSpec& samples,
    const std::function<data::SourceOptions(const data::SampleSpec&)>& options) {
  if (source_ && samples.SharesFilesWith(samples_)) {
    source_->Select(samples.shard);
  } else {
    source_.reset();  // if the next one cannot be opened, there is none
    source_ = data::OpenSource(options(samples));
    samples_ = samples;
  }
  return *source_;
}

std::unique_ptr<data::Source> OpenSamples(const graph::Model& model, const RunOptions& run) {
  return data::OpenSource(SourceFor(model, run));
}

calibrate::CalibrationResult GatherStatistics(const graph::Model& model,
                                              const std::string& model_name,
                                              std::span<const std::string> values,
                                              const RunOptions& run,
                                              calibrate::CalibrateOptions options) {
  options.num_threads = run.num_threads;
  options.progress = run.progress;
  return calibrate::Calibrate(model, model_name, values, *OpenSamples(model, run), options);
}

}  // namespace bitpress::tasks
