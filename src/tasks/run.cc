#include "tasks/run.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "graph/stored_bytes.h"
#include "ops/batch.h"
#include "ops/time_axis.h"
#include "runtime/session.h"

namespace bitpress::tasks {
namespace {

// The most bytes of constants of a model that is opened to try a sample.
constexpr uint64_t kMostTriedBytes = 500'000'000;

bool Runs(runtime::Session& session, const std::vector<Tensor>& inputs) {
  try {
    session.Run(inputs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns whether the first item has several rows of which the first one does not run, while the
// whole item does: its rows belong together, such as views of one thing. Everything else, and what
// cannot be read, is for the task itself to find.
bool FirstItemRunsWholeOnly(const graph::Model& model, const RunOptions& run) {
  // A fixed number of rows a run says what belongs together.
  if (!run.samples.tokens.empty() || !run.samples.image.empty() || ops::FixedBatchOf(model) > 0 ||
      graph::MeasureParts(model).constants > kMostTriedBytes) {
    return false;
  }
  try {
    data::SampleSpec first = run.samples.First(1);
    first.shard = {};
    data::SourceOptions options = data::ToSourceOptions(first, model);
    options.num_threads = 1;
    options.kept = nullptr;  // it is not known yet how the items are read
    const std::optional<data::Batch> row = data::OpenSource(options)->Next(1);
    const bool is_row = row && row->HasRows() && row->failed.empty() && row->labels.empty() &&
                        row->names.front().ends_with(']');
    if (!is_row) return false;
    runtime::Session session = runtime::Session::FromModel(
        model, {.num_threads = 1, .optimization = runtime::Optimization::kNone});
    if (Runs(session, row->inputs)) return false;
    options.use_whole_items = true;
    const std::optional<data::Batch> item = data::OpenSource(options)->Next(1);
    return item && item->failed.empty() && Runs(session, item->inputs);
  } catch (const Error&) {
    return false;
  }
}

bool TakesWholeItems(const graph::Model& model, const RunOptions& run) {
  if (run.samples.whole_items || ops::HasTimeFirst(model)) return true;
  std::optional<bool>& found = *run.samples.found_whole;
  if (!found && run.samples.is_given()) found = FirstItemRunsWholeOnly(model, run);
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
