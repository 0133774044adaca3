// Calibration: one pass of samples through the float model, in which observers count the tensors to
// be quantized where ONNX Runtime computes them. Memory does not grow with the number of samples.
// The model runs one sample at a time (sample_runs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "calibrate/calibration_table.h"
#include "data/source.h"
#include "graph/model.h"

namespace bitpress::calibrate {

struct CalibrateOptions {
  size_t batch_size = 8;   // samples read at once
  size_t num_threads = 0;  // of ONNX Runtime; 0: one per core
  // Values that get statistics of each slice across this axis too, for example of each channel.
  std::map<std::string, int64_t> axes = {};
  std::filesystem::path operator_library = {};  // as in runtime::SessionOptions
  ProgressSink progress = {};                   // counts samples; may be empty
};

// Every value that could be quantized: FLOAT and FLOAT16 inputs and outputs of nodes that are no
// constants, those of bodies of If, Loop and Scan included, in graph order. `model` should be
// prepared (constants folded, shapes inferred): values of unknown type are left out.
std::vector<std::string> FloatActivations(const graph::Model& model);

struct CalibrationResult {
  CalibrationTable table;
  uint64_t num_left_out = 0;  // samples that did not fill a batch of a fixed size
  double run_ms = 0;          // in ONNX Runtime, observers included; without reading samples
};

// Runs every sample of `source` through the model and counts `values`, which may be of the main
// graph or of bodies. `name` is noted for people. A value in a branch that never runs has empty
// statistics. Throws Error(kInvalidArgument) if a value is not a float value of the model or if
// there are no samples (for a fixed first dimension: fewer than one whole batch; a rest of the
// samples is left out), and what reading and running throw.
CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options = {});

}  // namespace bitpress::calibrate
