// The options that every task with samples has, and the functions that run samples through a model
// with them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/file_stamps.h"
#include "bitpress/progress.h"
#include "calibrate/calibrate.h"
#include "data/source.h"
#include "graph/model.h"

namespace bitpress::tasks {

struct RunOptions {
  data::SampleSpec samples = {};
#define BITPRESS_RUN_OPTION(type, field, key, value, ...) type field = value;
#include "bitpress/quantize_options.inc"
  ProgressSink progress = {};  // may be empty

  // Returns the same options with the first `limit` of the samples.
  RunOptions First(size_t limit) const { return {samples.First(limit), num_threads, progress}; }
  // Returns the options for the samples that scales follow from: `limit` of them; 0: all.
  RunOptions ForCalibration(int64_t limit) const {
    return limit > 0 ? First(static_cast<size_t>(limit)) : *this;
  }
};

// Returns the options that open the samples for the inputs of `model`. Throws
// Error(kInvalidArgument).
data::SourceOptions SourceFor(const graph::Model& model, const RunOptions& run);

// Throws Error(kInvalidArgument) if no sample ran because all of them failed.
void CheckSomeRan(size_t num_samples);

// Remembers the files of a model as they are, external data included.
FileStamps StampsOf(const std::filesystem::path& model);

// Samples that stay open while other shards of them are asked for.
class OpenedSamples {
 public:
  // Returns the source of the samples, at their start. `options` makes what OpenSource takes of
  // them, and is called if others are asked for than before. Throws Error as data::OpenSource.
  data::Source& Open(const data::SampleSpec& samples,
                     const std::function<data::SourceOptions(const data::SampleSpec&)>& options);

 private:
  data::SampleSpec samples_;
  std::unique_ptr<data::Source> source_;
};

// Opens the samples for the inputs of `model`. Throws Error as data::OpenSource.
std::unique_ptr<data::Source> OpenSamples(const graph::Model& model, const RunOptions& run);

// Gathers statistics of `values` over the samples, with `options` but for its threads and progress,
// which are those of `run`. `model_name` is for messages. Throws Error.
calibrate::CalibrationResult GatherStatistics(const graph::Model& model,
                                              const std::string& model_name,
                                              std::span<const std::string> values,
                                              const RunOptions& run,
                                              calibrate::CalibrateOptions options = {});

}  // namespace bitpress::tasks
