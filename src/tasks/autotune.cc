#include "tasks/autotune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"
#include "base/text.h"
#include "data/kept_samples.h"
#include "graph/staged_model.h"
#include "tasks/json_file.h"
#include "tasks/shared_work.h"
#include "tasks/trials.h"

namespace bitpress::tasks {
namespace {

namespace fs = std::filesystem;

// Returns the loss of the float model's accuracy, and the name of its measure.
std::pair<double, std::string> LossOf(const evaluate::EvaluationReport& report) {
  if (report.top1 && report.reference_top1.value_or(0) > 0) {
    return {(*report.reference_top1 - *report.top1) / *report.reference_top1, "top-1"};
  }
  if (report.agreement) return {1 - *report.agreement, "agreement"};
  if (!report.sqnr_db) {
    Fail(ErrorCode::kInvalidArgument, "the model has no output of floating-point numbers");
  }
  return {std::pow(10, -*report.sqnr_db / 10), "noise"};
}

// Returns whether the model gives NaN or infinity where the float model gives numbers. Such a model
// loses by every measure.
bool HasLost(const evaluate::EvaluationReport& report) {
  return report.num_nonfinite_values > 0 && report.sqnr_db && std::isinf(*report.sqnr_db) &&
         *report.sqnr_db < 0;
}

// Returns the loss by the caller's own measure.
double LossOf(double metric, double reference) {
  if (reference == 0) {
    Fail(ErrorCode::kInvalidArgument,
         "the metric of the float model is 0, and a loss is in parts of it; add a constant to it");
  }
  return (reference - metric) / std::abs(reference);
}

// The place of a model that was tried, in a folder that is removed at the end. It is called as the
// output is.
class Candidate {
 public:
  Candidate(const fs::path& folder, std::string_view name, const fs::path& output)
      : path_(folder / name / output.filename()) {
    std::error_code error;
    fs::create_directory(folder / name, error);
    if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(output), ErrorText(error));
  }
  const fs::path& path() const { return path_; }
  // A model of several files names them, so it cannot be renamed.
  bool CanMove() const {
    const fs::path data = WithSuffix(path_, ".data");
    std::error_code error;
    const bool has_data = fs::exists(data, error);
    if (error) Fail(ErrorCode::kIo, "cannot look for '{}': {}", PathText(data), ErrorText(error));
    return !has_data;
  }

 private:
  fs::path path_;
};

void Rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(to), ErrorText(error));
}

// Measures a model that was tried. Returns the name of the measure.
std::string MeasureTrial(const fs::path& model, const Trials& trials, AutotuneTrial& trial) {
  trial.evaluation = trials.Evaluate(model);
  trial.metric = trials.MeasureOwn(model);
  if (trial.metric) {
    trial.loss = LossOf(*trial.metric, *trials.reference_metric());
    return "metric";
  }
  std::string measure;
  std::tie(trial.loss, measure) = LossOf(trial.evaluation);
  if (HasLost(trial.evaluation)) trial.loss = std::numeric_limits<double>::infinity();
  return measure;
}

TrialOptions TrialsOf(const AutotuneOptions& options) {
  TrialOptions trials;
  static_cast<RunOptions&>(trials) = options;
  trials.samples.kept = std::make_shared<data::KeptSamples>();
  trials.model = options.model;
  trials.preparation = options.preparation;
  trials.is_checked = options.is_checked;
  trials.shared = std::make_shared<SharedWork>();
  trials.validation = trials;  // with the samples that are kept
  if (options.validation.is_given()) {
    trials.validation.samples = options.validation;
    trials.validation.samples.kept = std::make_shared<data::KeptSamples>();
  }
  trials.validation.samples.limit = options.validation.limit;
  trials.batch_size = options.batch_size;
  trials.metric = options.metric;
  return trials;
}

}  // namespace

std::vector<plan::QuantConfig> DefaultLadder() {
  std::vector<plan::QuantConfig> ladder;
  for (const char* name : {"INT8", "INT8_ADAROUND", "INT8_ADAQUANT"}) {
    ladder.push_back(plan::ConfigByName(name));
  }
  plan::QuantConfig wide = plan::ConfigByName("INT8");
  wide.name = "INT8, activations of 16 bits";
  wide.activations = "uint16";
  ladder.push_back(wide);
  ladder.push_back(plan::ConfigByName("BF16"));
  return ladder;
}

AutotuneReport Autotune(const AutotuneOptions& options) {
  if (!(options.tolerable_loss >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "a tolerable loss is 0 or more, not {}",
         options.tolerable_loss);
  }
  if (options.max_trials == 0) Fail(ErrorCode::kInvalidArgument, "there must be a trial");
  { const AtomicFile probe(options.output); }  // before any work
  JsonFile report_file(options.report);
  const std::vector<plan::QuantConfig> configs =
      options.configs.empty() ? DefaultLadder() : options.configs;
  AutotuneReport report;
  const Trials trials(TrialsOf(options));
  report.reference_metric = trials.reference_metric();
  std::optional<size_t> best;
  bool is_kept = false;
  const fs::path output = FollowLink(options.output);
  const ScratchFolder folder(output);
  const Candidate trial(folder.path(), "trial", output);
  const Candidate kept(folder.path(), "best", output);
  for (size_t i = 0; i < std::min(configs.size(), options.max_trials); ++i) {
    AutotuneTrial& tried = report.trials.emplace_back();
    tried.config = configs[i].name;
    try {
      trials.Quantize(trial.path(), configs[i]);
    } catch (const Error& error) {
      // A full disk says nothing about the configuration, and the next one would not fit either.
      if (error.code() == ErrorCode::kIo) throw;
      // Files are named as they will be called: reports of equal runs are equal.
      tried.error = Replaced(error.what(), PathText(trial.path()), PathText(output));
      continue;
    }
    report.measure = MeasureTrial(trial.path(), trials, tried);
    tried.evaluation.model = options.output;  // reports of equal runs are equal
    if (!best || tried.loss < report.trials[*best].loss) {
      best = i;
      is_kept = trial.CanMove();
      if (is_kept) Rename(trial.path(), kept.path());
    }
    report.is_tolerable = tried.loss <= options.tolerable_loss;
    if (report.is_tolerable) break;
  }
  if (!best) {
    Fail(ErrorCode::kInvalidArgument, "'{}': no configuration could be tried; {}: {}",
         PathText(options.model), report.trials[0].config, report.trials[0].error);
  }
  report.chosen = *best;
  if (is_kept) {
    const fs::path old_data = graph::ReplacedDataFile(output);
    Rename(kept.path(), output);
    std::error_code ignored;
    if (!old_data.empty()) fs::remove(old_data, ignored);
  } else {
    trials.Quantize(output, configs[*best]);  // the same bytes again
  }
  report_file.Write(ToJson(report));
  return report;
}

nlohmann::ordered_json ToJson(const AutotuneReport& report) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const AutotuneTrial& trial : report.trials) {
    nlohmann::ordered_json json{{"config", trial.config}};
    if (trial.error.empty()) {
      json["loss"] = trial.loss;
      if (trial.metric) json["metric"] = *trial.metric;
      json["evaluation"] = evaluate::ToJson(trial.evaluation);
    } else {
      json["error"] = trial.error;
    }
    trials.push_back(std::move(json));
  }
  nlohmann::ordered_json json{{"bitpress_autotune", 1}, {"measure", report.measure}};
  if (report.reference_metric) json["reference_metric"] = *report.reference_metric;
  json["chosen"] = report.trials[report.chosen].config;
  json["is_tolerable"] = report.is_tolerable;
  json["trials"] = std::move(trials);
  return json;
}

}  // namespace bitpress::tasks
