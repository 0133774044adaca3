// Calibration: one pass of samples through the float model, which gathers the statistics that
// scales of activations follow from. Observers count the tensors to be quantized where ONNX Runtime
// computes them. Memory does not grow with the number of samples. The model runs one sample at a
// time (sample_runs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bitpress/progress.h"
#include "calibrate/calibration_table.h"
#include "calibrate/model_pieces.h"
#include "data/source.h"
#include "graph/model.h"

namespace bitpress::calibrate {

struct CalibrateOptions {
  size_t batch_size = 8;   // samples read at once
  size_t num_threads = 0;  // threads of ONNX Runtime; 0: one per core
  // Most bytes of the constants of one piece. A larger model runs piece by piece (piece_runs.h), so
  // that memory does not grow with it.
  uint64_t most_piece_bytes = kMostPieceBytes;
  // Values that get statistics of each slice across this axis too, for example of each channel.
  std::map<std::string, int64_t> axes = {};
  // Key-value caches [samples, heads, positions, channels] that get statistics and histograms of
  // each head's channels.
  std::set<std::string> caches = {};
  // The statistics of every sample of this number are also kept apart, to see whether the others
  // stand for them (held_back.h). 0: of none.
  size_t hold_back_every = 0;
  std::filesystem::path operator_library = {};  // see runtime::SessionOptions
  ProgressSink progress = {};                   // counts samples; may be empty
};

// Returns every value that could be quantized, in graph order: FLOAT and FLOAT16 inputs and outputs
// of nodes, but no constants. Values in bodies of If, Loop and Scan are included. `model` should be
// prepared (constants folded, shapes inferred), because values of unknown type are left out.
std::vector<std::string> FloatActivations(const graph::Model& model);

// The two parts of the samples.
struct HeldBackTables {
  CalibrationTable others;
  CalibrationTable held_back;
};

struct CalibrationResult {
  CalibrationTable table;                    // of all samples
  std::optional<HeldBackTables> parts = {};  // nothing: no sample was held back
  uint64_t num_left_out = 0;                 // samples that did not fill a batch of a fixed size
  double run_ms = 0;  // time in ONNX Runtime with observers, without reading samples
};

// Runs every sample of `source` through the model and counts `values`, which may be of the main
// graph or of bodies. `name` is noted for people. A value in a branch that never runs has empty
// statistics. If the model's first dimension is fixed, samples that fill no batch are left out.
// Throws Error(kInvalidArgument) if a value is not a float value of the model or if no sample runs.
// Errors of reading and running pass through.
CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options = {});

}  // namespace bitpress::calibrate
