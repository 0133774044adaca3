// A model against labels and against a reference model: accuracy, closeness of the outputs, time
// and size. Samples are streamed in batches, so memory does not grow with their number; photos and
// tensor files come from data/, inference from runtime/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "evaluate/other_processor.h"

namespace bitpress::evaluate {

struct EvaluateOptions {
  std::filesystem::path model;
  // The float model to compare with; empty: only accuracy, time and size of `model`.
  std::filesystem::path reference;
  // Samples in one run of a model. A model whose first input dimension is fixed gets that many,
  // the last batch filled up with copies that count nowhere.
  size_t batch_size = 20;
  int num_threads = 0;  // of ONNX Runtime for each model; 0: one per core
  // Name of the output with the class scores; empty: the first with the shape [N, classes] (further
  // dimensions of 1 are allowed).
  std::string class_output;
  // The kind of processor that the figures are of; nothing: this machine's. Another kind is
  // simulated, and its times say nothing.
  std::optional<ProcessorKind> processor = std::nullopt;
  std::filesystem::path operator_library;  // as in runtime::SessionOptions
  ProgressSink progress;                   // may be empty; counts samples
};

// Closeness of one floating-point output to the reference's output of the same name (or position,
// where the reference has no such name).
struct OutputReport {
  std::string name;
  uint64_t num_values = 0;
  double sqnr_db = 0;  // +infinity without any error
  double cosine = 0;   // averaged over samples; see OutputComparison
};

struct EvaluationReport {
  std::filesystem::path model;
  std::filesystem::path reference;  // empty: none
  size_t num_samples = 0;
  size_t num_labelled = 0;
  size_t batch_size = 0;
  std::string class_output;  // empty: the model has no class scores, and no accuracy is given

  // Shares, 0 to 1. With labels and class scores:
  std::optional<double> top1, top5;
  std::optional<double> reference_top1, reference_top5;
  // With a reference: how often both models rank the same class first.
  std::optional<double> agreement;

  // With a reference, over every floating-point output together: see OutputComparison.
  std::optional<double> sqnr_db, cosine, l2;
  bool outputs_identical = false;
  std::vector<OutputReport> outputs;
  // Values of the model's floating-point outputs that are NaN or infinite. A sample with a NaN
  // among its scores counts as wrong and as not agreeing.
  uint64_t num_nonfinite_values = 0;

  // Time of all runs, in ms, without reading the samples. Both models get the same batches, one
  // after the other, in turns which goes first; the first batch is run once before, untimed.
  double time_ms = 0;
  std::optional<double> reference_time_ms;
  // Median over the batches of the model's time over the reference's.
  std::optional<double> time_ratio;

  // Says whether another kind of processor gives other outputs, judged on the first batch.
  ProcessorReport processor;

  // Of the model file with its external data.
  uint64_t file_bytes = 0;
  std::optional<uint64_t> reference_file_bytes;
};

// Runs the model, and the reference if there is one, on all samples of `source` (from its start).
// REQUIRES: `source` was opened with the input names of `model`. Throws Error: a file that does not
// load, inputs that do not fit, a label beyond the classes, outputs that cannot be compared, no
// sample at all.
EvaluationReport Evaluate(const EvaluateOptions& options, data::Source& source);

// The report in JSON: the fields above by name, absent ones null. An infinite sqnr_db is null too
// (JSON has no infinity); outputs_identical tells the two apart.
nlohmann::ordered_json ToJson(const EvaluationReport& report);

}  // namespace bitpress::evaluate
