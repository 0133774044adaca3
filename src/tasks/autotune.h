// Tries configurations from cheap to dear until one loses little enough.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "evaluate/evaluate.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"
#include "tasks/metric.h"

namespace bitpress::tasks {

struct AutotuneOptions {
  std::filesystem::path model;
  // The model of the configuration that was chosen. Written as by Quantize.
  std::filesystem::path output;
  std::filesystem::path report;               // a JSON file, see ToJson; empty: none
  data::SampleSpec samples = {.limit = 100};  // for ranges and fine-tuning
  data::SampleSpec validation;  // to measure with; not given: `samples` with this limit
  // In the order in which they are tried; empty: DefaultLadder().
  std::vector<plan::QuantConfig> configs;
  // What may be lost, in parts of the float model's accuracy: 0.01 is 1 % of it. Accuracy is top-1
  // where there are labels, else how often both models rank the same class first; of models without
  // class scores the energy of the error in parts of the outputs' (0.01 is 20 dB).
  double tolerable_loss = 0.01;
  // Accuracy by a measure of the caller's own instead: of the float model first, then of each
  // model that is tried. May be empty.
  ModelMetric metric;
  size_t max_trials = 100;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  size_t batch_size = 20;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

// INT8 as it is, then with learned roundings and weights, then with wider activations, then BF16.
std::vector<plan::QuantConfig> DefaultLadder();

struct AutotuneTrial {
  std::string config;
  double loss = 0;
  evaluate::EvaluationReport evaluation;
  std::optional<double> metric;  // of the caller's own measure
  std::string error;             // why it could not be tried, or ""
};

struct AutotuneReport {
  std::string measure;                     // "top-1", "agreement", "noise", "metric"
  std::optional<double> reference_metric;  // the float model's
  std::vector<AutotuneTrial> trials;
  size_t chosen = 0;
  bool is_tolerable = false;
};

// The first configuration whose loss is tolerable, else the best: that of ONNX Neural Compressor's
// `autotune`. A configuration that the model cannot have is passed over. Throws Error if no
// configuration could be tried, and Error(kIo) as soon as a file cannot be read or written; nothing
// is left behind then.
AutotuneReport Autotune(const AutotuneOptions& options);

nlohmann::ordered_json ToJson(const AutotuneReport& report);

}  // namespace bitpress::tasks
