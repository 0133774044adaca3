// The task `calibrate`: statistics of the activations over samples, as a file. Also merges and
// reads such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "calibrate/calibrate.h"
#include "calibrate/calibration_table.h"
#include "data/source.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {

struct CalibrateOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // a .bpc file. Written as by Quantize
  data::SampleSpec samples;
  // Watches only the activations that this configuration quantizes, of the model that it equalizes
  // if it does; nothing: every float one of the model as it is.
  std::optional<plan::QuantConfig> config = std::nullopt;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  graph::PassNames disabled_passes = {};  // see AllPasses; for bisecting
  // Also the extremes and sums of each channel of whatever matrix products and convolutions read;
  // without it of those inputs that pair-safe weights are chosen for, which leaves out depthwise
  // convolutions and products of two activations.
  bool is_per_channel = false;
  size_t batch_size = 8;   // samples read at once; the model runs them one at a time
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

struct CalibrateReport {
  calibrate::CalibrationResult result;
  uint64_t output_bytes = 0;
};

// Prepares the model as Quantize does, so that the names of values are the same, runs the samples
// through it, and writes their statistics. Throws Error; nothing is left behind then.
CalibrateReport Calibrate(const CalibrateOptions& options);

// Reads a calibration file. Throws Error naming the file.
calibrate::CalibrationTable ReadCalibration(const std::filesystem::path& path);
// Whether a file starts like one. False also where it cannot be read.
bool IsCalibration(const std::filesystem::path& path);

// Adds files of one model and the same values up and writes the result, which may be one of them:
// exactly what one pass over all samples would have given, in whatever order. Throws Error naming
// the file that does not fit.
calibrate::CalibrationTable MergeCalibrations(std::span<const std::filesystem::path> paths,
                                              const std::filesystem::path& output);

// Loads a calibration file and checks that it is of the model as it was prepared, with these
// options. Throws Error naming it.
calibrate::CalibrationTable LoadTable(const graph::Model& model,
                                      const std::optional<plan::EqualizeOptions>& equalization,
                                      const std::filesystem::path& path);

}  // namespace bitpress::tasks
