// The task `calibrate`: gathers statistics of the activations over samples and writes them to a
// file. Use it to gather them once for several plans or runs of Quantize. This header also merges
// and reads such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "calibrate/calibrate.h"
#include "calibrate/calibration_table.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"
#include "tasks/merge_files.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct CalibrateOptions : RunOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // a .bpc file. Written as by Quantize
  // The configuration whose quantized activations are watched, in the model that it equalizes if it
  // does. Nothing: every float activation of the model as it is.
  std::optional<plan::QuantConfig> config = std::nullopt;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  graph::PassNames disabled_passes = {};  // see AllPasses; for bisecting
  // Gathers also the extremes and sums of each channel of all inputs of matrix products and
  // convolutions. Otherwise it does so only for the inputs that pair-safe weights are chosen for.
  // Those exclude depthwise convolutions and products of two activations.
  bool is_per_channel = false;
  size_t batch_size = 8;  // samples read at once; the model runs them one at a time
  // Samples that cannot be read or run are left out, and so many of them may be. 0: the first one
  // is an Error.
  size_t most_failures = 0;
};

// A model that is prepared and loaded once, to count parts of the samples again and again. Use it
// in a process that works on many parts. One thread at a time uses it.
class Calibrator {
 public:
  // Prepares the model as Quantize does, so that the names of values are the same. `samples`,
  // `output` and `progress` of the options are not used. Throws Error.
  explicit Calibrator(const CalibrateOptions& options);
  ~Calibrator();
  Calibrator(Calibrator&&) noexcept;
  Calibrator& operator=(Calibrator&&) noexcept;

  // Gathers the statistics of these samples alone. Throws Error. If all samples failed, it is a
  // table of none.
  calibrate::CalibrationResult Count(const data::SampleSpec& samples, const ProgressSink& progress);
  // Returns whether the model's files are as they were before they were read.
  bool IsCurrent() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct CalibrateReport {
  calibrate::CalibrationResult result;
  uint64_t output_bytes = 0;
};

// Runs the samples through the model and writes their statistics. Throws Error; leaves nothing
// behind then.
CalibrateReport Calibrate(const CalibrateOptions& options);

// Reads a calibration file. Throws Error naming the file.
calibrate::CalibrationTable ReadCalibration(const std::filesystem::path& path);
// Returns whether a file starts like a calibration file. Returns false if it cannot be read.
bool IsCalibration(const std::filesystem::path& path);

// Returns what is known of the values, as `calibrate --json`, `merge --json` and `inspect --json`
// write it. Histograms are left out.
nlohmann::ordered_json ToJson(const calibrate::CalibrationTable& table);

// Adds up calibration files of one model and the same values, and writes the result. `output` may
// be one of the files. The result is exactly that of one pass over all samples, in whatever order.
// At most `most_failures` samples may have been left out in all. Throws Error naming the file that
// does not fit, or those samples.
calibrate::CalibrationTable MergeCalibrations(std::span<const std::filesystem::path> paths,
                                              const std::filesystem::path& output,
                                              size_t most_failures = kAnyNumber);

// Loads a calibration file and checks that it fits the prepared model with these rewrites.
// Throws Error naming the file.
calibrate::CalibrationTable LoadTable(const graph::Model& model, const plan::Rewrites& rewrites,
                                      const std::filesystem::path& path);

}  // namespace bitpress::tasks
