#include "tasks/run.h"

#include <utility>

#include "ops/time_axis.h"

namespace bitpress::tasks {

data::SourceOptions SourceFor(const graph::Model& model, const RunOptions& run) {
  data::SourceOptions source = data::ToSourceOptions(run.samples, model);
  source.use_whole_items = ops::HasTimeFirst(model);
  source.read_ahead = true;
  source.num_threads = run.num_threads;
  return source;
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
