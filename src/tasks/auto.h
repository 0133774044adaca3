// The task `auto`: from a float model to the file that suits its network, this machine and a
// preference. Use it if you have no configuration yet. It tries a short list of configurations,
// measures each beside the float model, and writes the best one. `autotune` is its preference
// `first`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "evaluate/evaluate.h"
#include "ops/network_kind.h"
#include "rewrite/prepare.h"
#include "tasks/auto_candidates.h"
#include "tasks/auto_goals.h"
#include "tasks/metric.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct AutoReport;

// The samples are for ranges and fine-tuning. Without any, only configurations that need none are
// tried, and no loss is measured.
struct AutoOptions : RunOptions {
  AutoOptions() { samples.limit = 100; }

  std::filesystem::path model;
  // The quantized model of the chosen configuration. Written as by Quantize.
  std::filesystem::path output;
  std::filesystem::path report;  // a JSON file, see ToJson; empty: none
  std::filesystem::path page;    // a page about the written model (tasks/report.h); empty: none
  // For measuring; not given: `samples` with this limit. A limit of 0 means all, for the preference
  // `first`, else as many as a minute or so allows.
  data::SampleSpec validation;
  // The configurations in the order of the trials; empty: those that suit, see SuitableCandidates
  // and, for the preference `first`, LadderCandidates.
  std::vector<AutoCandidate> candidates;
  Want want = Want::kBalanced;
  Limits limits;
  // The largest tolerable loss if `limits` has none, as a fraction of the float model's accuracy:
  // 0.01 is 1 %. Accuracy is top-1 if there are labels. Without labels it is how often both models
  // rank the same class first; for tokens, the loss is how much the perplexity rises. For models
  // without class scores, the loss is that of the task (evaluate/task.h), and if no task is found
  // the energy of the error as a fraction of the energy of the output (0.01 is 20 dB). Of several
  // outputs the one that loses most decides.
  double tolerable_loss = 0.01;
  std::string task = "auto";  // in whose terms loss is measured, as EvaluateOptions::task
  // The caller's own measure of accuracy, used instead. It measures the float model first, then
  // each model that is tried. May be empty.
  ModelMetric metric;
  size_t max_trials = 100;
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  Target target = Target::kAutomatic;
  bool is_checked = true;  // each model is loaded and run before it is tried, see WriteModel
  size_t batch_size = 20;
  // The options of `samples` on the command line, for the command that makes the file again.
  std::string sample_words;
  // Called after each trial, which is the last one of the report so far. May be empty.
  std::function<void(const AutoReport&)> on_trial;
};

struct AutoTrial {
  std::string config;
  std::optional<double> loss;  // nothing: not measured, for want of samples
  std::optional<evaluate::EvaluationReport> evaluation;
  // The output whose loss is that of the model, as it loses more than what the measure of the
  // report is about; nothing: none does.
  std::optional<evaluate::HeadReport> worst_head;
  std::optional<double> metric;      // by the caller's own measure
  uint64_t file_bytes = 0;           // external data included
  std::optional<double> time_ratio;  // over the float model; nothing: not measured
  bool keeps_limits = false;
  std::string limits_missed;  // as LimitsMissed
  std::string command;        // makes the file again; "" if no command line does
  std::string error;          // the reason why it could not be tried, or ""
};

struct AutoReport {
  ops::NetworkKind network = ops::NetworkKind::kTabular;
  uint64_t float_bytes = 0;
  Goals goals;
  std::string measure;                     // "top-1", "agreement", ..., "metric"; "": none
  std::optional<double> reference_metric;  // the float model's
  std::vector<AutoTrial> trials;
  size_t chosen = 0;
  bool is_tolerable = false;       // the chosen one keeps the limits
  std::vector<std::string> notes;  // what would give a better choice, and other ones
};

// Tries the configurations and chooses as the goals say; the preference `first` ends with the first
// that keeps the limits, as ONNX Neural Compressor's `autotune` does. Passes over a configuration
// that the model cannot have. Throws Error if no configuration could be tried, and Error(kIo) as
// soon as a file cannot be read or written. Leaves nothing behind then.
AutoReport Auto(const AutoOptions& options);

// Returns the trials that none beats in bytes and loss, by rising bytes.
std::vector<size_t> FrontOf(const AutoReport& report);

nlohmann::ordered_json ToJson(const AutoReport& report);

}  // namespace bitpress::tasks
