// The task `autotune`: tries configurations from cheap to dear until one loses little enough. Use
// it if you have a limit for the loss of accuracy and no configuration yet.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "evaluate/evaluate.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"
#include "tasks/metric.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// The samples are for ranges and fine-tuning.
struct AutotuneOptions : RunOptions {
  AutotuneOptions() { samples.limit = 100; }

  std::filesystem::path model;
  // The quantized model of the chosen configuration. Written as by Quantize.
  std::filesystem::path output;
  std::filesystem::path report;  // a JSON file, see ToJson; empty: none
  data::SampleSpec validation;   // for measuring; not given: `samples` with this limit
  // The configurations in the order of the trials; empty: DefaultLadder().
  std::vector<plan::QuantConfig> configs;
  // The largest tolerable loss, as a fraction of the float model's accuracy: 0.01 is 1 %. Accuracy
  // is top-1 if there are labels. Without labels it is how often both models rank the same class
  // first. For models without class scores, the loss is the energy of the error as a fraction of
  // the energy of the outputs (0.01 is 20 dB).
  double tolerable_loss = 0.01;
  // The caller's own measure of accuracy, used instead. It measures the float model first, then
  // each model that is tried. May be empty.
  ModelMetric metric;
  size_t max_trials = 100;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  bool is_checked = true;  // each model is loaded and run before it is tried, see WriteModel
  size_t batch_size = 20;
};

// Returns INT8 as it is, then INT8 with learned roundings and weights, then INT8 with wider
// activations, then BF16.
std::vector<plan::QuantConfig> DefaultLadder();

struct AutotuneTrial {
  std::string config;
  double loss = 0;
  evaluate::EvaluationReport evaluation;
  std::optional<double> metric;  // by the caller's own measure
  std::string error;             // the reason why it could not be tried, or ""
};

struct AutotuneReport {
  std::string measure;                     // "top-1", "agreement", "noise", "metric"
  std::optional<double> reference_metric;  // the float model's
  std::vector<AutotuneTrial> trials;
  size_t chosen = 0;
  bool is_tolerable = false;
};

// Chooses the first configuration whose loss is tolerable, or the best one if none is. ONNX Neural
// Compressor's `autotune` chooses in the same way. Passes over a configuration that the model
// cannot have. Throws Error if no configuration could be tried, and Error(kIo) as soon as a file
// cannot be read or written. Leaves nothing behind then.
AutotuneReport Autotune(const AutotuneOptions& options);

nlohmann::ordered_json ToJson(const AutotuneReport& report);

}  // namespace bitpress::tasks
