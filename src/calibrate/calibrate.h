// Calibration: one pass of samples through the float model, which gathers the statistics that
// scales of activations follow from. Observers count the tensors to be quantized where ONNX Runtime
// computes them. Memory does not grow with the number of samples. The model runs one sample at a
// time (sample_runs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
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
  // Most bytes of the constants of such a model whose pieces stay loaded for the next samples of a
  // Calibrator. Those of a larger model are loaded anew for each run.
  uint64_t most_kept_bytes = 0;
  // Values that get statistics of each slice across this axis too, for example of each channel.
  std::map<std::string, int64_t> axes = {};
  // Key-value caches [samples, heads, positions, channels] that get statistics and histograms of
  // each head's channels.
  std::set<std::string> caches = {};
  // Statistics have sums over the tensor (TensorStatistics::has_sums), which cost time.
  bool adds_sums = true;
  // Samples that cannot be read or run are left out, and so many of them may be. REQUIRES: none may
  // be, or no sample is held back. Sources have to keep failures (data::SourceOptions).
  size_t most_failures = 0;
  // The statistics of every sample of this number are also kept apart, to see whether the others
  // stand for them (held_back.h). 0: of none.
  size_t hold_back_every = 0;
  std::filesystem::path operator_library = {};  // see runtime::SessionOptions
  ProgressSink progress = {};                   // counts samples; may be empty. Not of a Calibrator
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
  CalibrationTable table;                       // of all samples
  std::optional<HeldBackTables> parts = {};     // nothing: no sample was held back
  uint64_t num_left_out = 0;                    // samples that did not fill a batch of a fixed size
  std::vector<data::FailedSample> failed = {};  // samples that were left out because they failed
  double run_ms = 0;  // time in ONNX Runtime with observers, without reading samples
};

// A model with observers that counts samples, again and again. It is loaded by the first run and
// stays so. One thread at a time uses it.
class Calibrator {
 public:
  // Watches `values` of `model`, which may be of the main graph or of bodies. `name` is noted for
  // people. The model must outlive this object. Throws Error(kInvalidArgument) if an option is
  // wrong.
  Calibrator(const graph::Model& model, std::string name, std::vector<std::string> values,
             CalibrateOptions options = {});
  ~Calibrator();
  Calibrator(Calibrator&&) noexcept;
  Calibrator& operator=(Calibrator&&) noexcept;

  // Runs every sample of `source` through the model and counts the values in them alone, whatever
  // was counted before. A value in a branch that never runs has empty statistics. If the model's
  // first dimension is fixed, samples that fill no batch are left out. Throws
  // Error(kInvalidArgument) if a value is not a float value of the model, or if there is no sample;
  // there is a table of no samples if all of them failed.
  // Errors of reading and running pass through.
  CalibrationResult Count(data::Source& source, const ProgressSink& progress);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Counts the samples once, as Calibrator does.
CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options = {});

}  // namespace bitpress::calibrate
