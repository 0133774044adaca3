#include "tasks/auto.h"

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
#include "base/processors.h"
#include "base/run_clock.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"
#include "base/text.h"
#include "data/kept_samples.h"
#include "evaluate/measured_loss.h"
#include "evaluate/task.h"
#include "evaluate/task_state.h"
#include "graph/staged_model.h"
#include "graph/stored_bytes.h"
#include "ops/batch.h"
#include "ops/multiply_adds.h"
#include "plan/target_profile.h"
#include "report/commands.h"
#include "runtime/session.h"
#include "tasks/check.h"
#include "tasks/compared_runs.h"
#include "tasks/json_file.h"
#include "tasks/report.h"
#include "tasks/shared_work.h"
#include "tasks/trials.h"
#include "tasks/verdict.h"

namespace bitpress::tasks {
namespace {

namespace fs = std::filesystem;

// Returns the loss of the float model's accuracy. Throws if nothing measures it.
MeasuredLoss LossOrFail(const evaluate::EvaluationReport& report) {
  std::optional<MeasuredLoss> loss = evaluate::LossOf(report);
  if (!loss) {
    Fail(ErrorCode::kInvalidArgument,
         "the model has no output of floating-point numbers by which a loss could be measured. An "
         "export of scikit-learn has maps instead (ZipMap): export it with "
         "options={{'zipmap': False}}");
  }
  return *std::move(loss);
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

TrialOptions TrialsOf(const AutoOptions& options) {
  TrialOptions trials;
  static_cast<RunOptions&>(trials) = options;
  trials.samples.kept = std::make_shared<data::KeptSamples>();
  trials.model = options.model;
  trials.preparation = options.preparation;
  trials.target = options.target;
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
  trials.task = options.task;
  return trials;
}

TrialFigures FiguresOf(const AutoTrial& trial, const AutoReport& report) {
  const auto bytes = static_cast<double>(trial.file_bytes);
  return {trial.loss, trial.time_ratio, bytes,
          bytes / std::max(1.0, static_cast<double>(report.float_bytes)),
          trial.evaluation ? trial.evaluation->sqnr_db : std::nullopt};
}

class AutoRun {
 public:
  explicit AutoRun(const AutoOptions& options)
      : options_(options),
        output_(FollowLink(options.output)),
        trials_(TrialsOf(options)),
        folder_(output_),
        trial_(folder_.path(), "trial", output_),
        kept_(folder_.path(), "best", output_) {
    report_.goals = GoalsOf(options.want, options.limits, options.tolerable_loss);
    report_.reference_metric = trials_.reference_metric();
    report_.float_bytes = graph::StoredBytes(options.model);
    LookAtNetwork();
  }

  AutoReport Run() {
    // A trial may bring another candidate, which comes next.
    for (size_t i = 0; i < std::min(candidates_.size(), options_.max_trials); ++i) {
      const bool is_reached = best_ && report_.trials[*best_].keeps_limits;
      if (candidates_[i].is_reserve && is_reached) continue;
      const bool may_be_faster = Try(candidates_[i]);
      if (options_.on_trial) options_.on_trial(report_);
      if (may_be_faster) {
        candidates_.insert(candidates_.begin() + static_cast<ptrdiff_t>(i + 1),
                           WithFastestSums(candidates_[i]));
      }
      if (options_.want == Want::kFirst && report_.trials.back().keeps_limits) break;
    }
    if (!best_) {
      Fail(ErrorCode::kInvalidArgument, "'{}': no configuration could be tried; {}: {}",
           PathText(options_.model), report_.trials[0].config, report_.trials[0].error);
    }
    report_.chosen = *best_;
    report_.is_tolerable = report_.trials[*best_].keeps_limits;
    TellResolution();
    TellSilentTask();
    TellWorstHead();
    TellOtherChoices();
    TellSums();
    TellLoad();
    Place();
    TellWarnings();
    return std::move(report_);
  }

  // Writes the page about the model in its place.
  void WritePage(const AutoReport& report) const {
    if (options_.page.empty()) return;
    ReportOptions page;
    static_cast<RunOptions&>(page) = trials_.validation();
    page.model = options_.output;
    page.reference = options_.model;
    page.output = options_.page;
    page.preparation = options_.preparation;
    page.quantized = &quantized_;
    page.batch_size = options_.batch_size;
    page.task = options_.task;
    page.trials = ToJson(report);
    const std::string& command = report.trials[report.chosen].command;
    if (!command.empty()) page.commands = {{"Quantize", command}};
    WriteReport(page);
  }

 private:
  // Finds out what the network is, what is tried, and on how many samples.
  void LookAtNetwork() {
    const bool has_samples = options_.samples.is_given();
    const graph::Model model = trials_.Prepare(plan::ConfigByName("INT8"));
    report_.network = ops::KindOf(model);
    candidates_ = options_.candidates;
    if (candidates_.empty()) {
      candidates_ =
          options_.want == Want::kFirst
              ? LadderCandidates()
              : SuitableCandidates(report_.network, has_samples, options_.target, options_.want);
    }
    CheckSamples(model);
    if (!has_samples) {
      report_.notes.push_back(
          "without samples no loss is measured: with some (100 are enough), INT8 with static "
          "scales "
          "and 4 bits are tried, too");
    } else if (options_.want != Want::kFirst && trials_.validation().samples.limit == 0) {
      trials_.LimitValidation(SamplesToMeasure(model));
    }
  }

  // Runs the first samples through the float model, so that wrong ones are one error before any
  // trial, and not one of each.
  void CheckSamples(const graph::Model& model) const {
    const auto batch = static_cast<int64_t>(ops::FixedBatchOf(model));
    std::optional<runtime::Session> session;
    for (const data::SampleSpec* samples : {&options_.samples, &options_.validation}) {
      const auto first = FirstSamples(model, *samples, 1, [](const auto&) { return size_t{1}; });
      if (first.empty()) continue;
      // Fewer samples than a fixed batch has are filled up when they are measured.
      const bool is_short = std::ranges::any_of(first[0], [&](const Tensor& input) {
        return batch > 1 && !input.dims.empty() && input.dims[0] < batch;
      });
      if (is_short) continue;
      if (!session) {
        session = runtime::Session::FromModel(
            model, {.num_threads = runtime::SessionThreads(options_.num_threads)});
      }
      WithContext(fmt::format("the first sample does not fit '{}'", PathText(options_.model)),
                  [&] { session->Run(first[0]); });
    }
  }

  // Says if so few things were counted that the tolerable loss is less than one of them.
  void TellResolution() {
    const auto& evaluation = report_.trials[*best_].evaluation;
    if (!evaluation) return;
    const std::optional<MeasuredLoss> first = evaluate::FirstLossOf(*evaluation);
    if (!first || first->num_items == 0 || first->measure != report_.measure) return;
    if (first->measure == "expected top-1") return;  // a sample changes it by less than its share
    const double one = 1 / static_cast<double>(first->num_items);
    if (report_.goals.limits.loss.value_or(1) >= one) return;
    const std::optional<evaluate::TaskReport>& task = evaluation->task;
    const bool has_strict = task && task->strict_loss && task->loss_name == first->measure;
    report_.notes.push_back(fmt::format(
        "one of {} {} is {:.2g} %, more than the loss that is allowed: measure on more, or "
        "allow more{}",
        first->num_items, first->items, 100 * one,
        has_strict ? fmt::format(" (the strict measure for few {} is {:.2f} %: {})", first->items,
                                 100 * *task->strict_loss, task->strict_loss_name)
                   : ""));
  }

  // Says if the measure of the task had nothing to measure, so that another one decided.
  void TellSilentTask() {
    const auto& evaluation = report_.trials[*best_].evaluation;
    if (!evaluation || !evaluation->task || evaluation->task->why_no_loss.empty()) return;
    report_.notes.push_back(fmt::format("nothing is known of the task {}: {}",
                                        evaluation->task->task, evaluation->task->why_no_loss));
  }

  // Says which output decided, where there are several.
  void TellWorstHead() {
    const AutoTrial& chosen = report_.trials[*best_];
    if (!chosen.worst_head) return;
    const evaluate::HeadReport& head = *chosen.worst_head;
    const std::string name = head.loss_name == "noise" ? "the energy of its error" : head.loss_name;
    const std::optional<MeasuredLoss> first = evaluate::FirstLossOf(*chosen.evaluation);
    if (!first && chosen.evaluation->heads.size() == 1) return;
    report_.notes.push_back(fmt::format(
        "the loss is that of output '{}' ({}), {}. If others are what counts, name one "
        "(--task classes:output=NAME, or embedding, segmentation, text, regression)",
        head.output, name,
        first ? fmt::format("more than {:.2f} % by {}", 100 * first->loss, first->measure)
              : fmt::format("the worst of {}", chosen.evaluation->heads.size())));
  }

  // Names the trials that another preference would have chosen, where they differ much.
  void TellOtherChoices() {
    const Goals& goals = report_.goals;
    if (!report_.is_tolerable || goals.want == Want::kFirst || goals.want == Want::kClosest) return;
    const TrialFigures& chosen = figures_[BestOf(figures_, goals)];
    const auto tell = [&](Want want, Limits limits, const auto& is_much_better) {
      const size_t other = BestOf(figures_, {want, std::move(limits)});
      if (!is_much_better(figures_[other], chosen)) return;
      const AutoTrial& trial = report_.trials[figured_[other].first];
      report_.notes.push_back(
          fmt::format("{} takes {:.2f} of the float model's time and {}: --want {} chooses it",
                      trial.config, trial.time_ratio.value_or(1), HumanBytes(trial.file_bytes),
                      WordOf<Want>(kWantWords, want)));
    };
    if (goals.want != Want::kFaster) tell(Want::kFaster, goals.limits, IsClearlyFaster);
    if (goals.want != Want::kBalanced || options_.limits.time) return;
    Limits any_time = goals.limits;
    any_time.time.reset();
    tell(Want::kSmaller, any_time, IsClearlySmaller);
  }

  // Says what the fastest order of sums costs.
  void TellSums() {
    if (!best_candidate_.has_fastest_sums) return;
    report_.notes.push_back(
        "sums in the fastest order have other last bits on processors without AMX, and take the "
        "time of the fixed order there");
  }

  // Says if other programs disturb times. Those of one thread are of a processor, which they do
  // not.
  void TellLoad() {
    constexpr double kBusy = 0.5;  // of the processors
    const auto processors = static_cast<double>(UsableProcessors());
    if (!load_ || *load_ < kBusy * processors || options_.num_threads == 1) return;
    report_.notes.push_back(fmt::format(
        "other programs kept the machine busy (a load of {:.1f} on {} when it began), so that "
        "times are rough: --threads 1 measures the time that a processor gave",
        *load_, WithNoun(UsableProcessors(), "processor")));
  }

  // Returns on how many samples a model is measured: those of about ten seconds, counted in
  // products, so that the number is the same on every machine.
  size_t SamplesToMeasure(const graph::Model& model) const {
    constexpr double kProducts = 2e11;
    constexpr double kLeast = 32, kMost = 1000;
    const auto first =
        FirstSamples(model, trials_.validation().samples, 1, [](const auto&) { return size_t{1}; });
    const double products =
        first.empty() ? 1 : ProductsOfRun(model, ops::CountProducts(model), first[0]);
    return static_cast<size_t>(std::clamp(kProducts / products, kLeast, kMost));
  }

  // Returns whether the same with sums in the fastest order is worth a trial, too.
  bool Try(const AutoCandidate& candidate) {
    AutoTrial& tried = report_.trials.emplace_back();
    tried.config = candidate.name;
    tried.command = CommandOf(candidate);
    QuantizeReport quantized;
    try {
      quantized = trials_.Quantize(trial_.path(), candidate.config, candidate.has_fastest_sums);
    } catch (const Error& error) {
      // A full disk says nothing about the configuration, and the next one would not fit either.
      if (error.code() == ErrorCode::kIo) throw;
      // Files are named as they will be called: reports of equal runs are equal.
      tried.error = Replaced(error.what(), PathText(trial_.path()), PathText(output_));
      return false;
    }
    tried.file_bytes = quantized.output_bytes;
    if (quantized.target && quantized.target->speed) {
      tried.time_ratio = quantized.target->speed->ratio;
    }
    Measure(tried);
    figures_.push_back(FiguresOf(tried, report_));
    tried.limits_missed = LimitsMissed(figures_.back(), report_.goals.limits);
    tried.keeps_limits = tried.limits_missed.empty();
    const size_t last = report_.trials.size() - 1;
    figured_.push_back({last, candidate});
    const bool may_be_faster = NumSlowerSums(quantized) > 0 && AllowsFastestSums(tried);
    const auto& [best, best_candidate] = figured_[BestOf(figures_, report_.goals)];
    if (best_ == best) return may_be_faster;
    best_ = best;
    best_candidate_ = best_candidate;
    // An earlier one comes back if what was better is too large beside the last one.
    is_kept_ = best == last && trial_.CanMove();
    if (best == last) quantized_ = std::move(quantized);
    if (is_kept_) Rename(trial_.path(), kept_.path());
    return may_be_faster;
  }

  // The order of sums changes the time alone. Who names configurations gets these only.
  bool AllowsFastestSums(const AutoTrial& tried) const {
    const Goals& goals = report_.goals;
    const bool counts_time = goals.want == Want::kBalanced || goals.want == Want::kFaster;
    const bool is_good = !tried.loss || !goals.limits.loss || *tried.loss <= *goals.limits.loss;
    return options_.candidates.empty() && counts_time && is_good;
  }

  // Measures the model that is tried.
  void Measure(AutoTrial& tried) {
    tried.metric = trials_.MeasureOwn(trial_.path());
    if (options_.samples.is_given() || options_.validation.is_given()) {
      tried.evaluation = trials_.Evaluate(trial_.path());
      tried.evaluation->model = options_.output;  // reports of equal runs are equal
      tried.time_ratio = tried.evaluation->time_ratio;
    }
    if (tried.metric) {
      tried.loss = LossOf(*tried.metric, *trials_.reference_metric());
      report_.measure = "metric";
    } else if (tried.evaluation) {
      MeasuredLoss measured = LossOrFail(*tried.evaluation);
      tried.loss = measured.loss;
      tried.worst_head = evaluate::WorstHeadOf(*tried.evaluation);
      report_.measure = std::move(measured.measure);
    }
  }

  // Returns the command that makes the file of a candidate again.
  std::string CommandOf(const AutoCandidate& candidate) const {
    if (candidate.config.rules != plan::QuantConfig().rules) {
      const bool is_preset = std::ranges::find(plan::AllPresets(), candidate.config.name,
                                               &plan::Preset::name) != plan::AllPresets().end();
      if (!is_preset) return "";
    }
    std::string command = report::QuantizeCommand(candidate.config, PathText(options_.model),
                                                  PathText(options_.output));
    if (candidate.has_fastest_sums) command += " --fastest-sums";
    if (!options_.sample_words.empty()) command += " " + options_.sample_words;
    if (options_.target != Target::kAutomatic) {
      command += fmt::format(" --target {}", ShellQuoted(options_.target.text()));
    }
    if (options_.preparation == rewrite::Preparation::kAsIs) command += " --as-is";
    if (options_.task != QuantizeChoices().task)
      command += fmt::format(" --task {}", ShellQuoted(options_.task));
    return command;
  }

  // Adds what `quantize` would warn of, but for what the table shows.
  void TellWarnings() {
    constexpr std::string_view kShown[] = {"far", "slower", "larger", "not_checked"};
    for (Warning& warning : VerdictOf(quantized_).warnings) {
      if (std::ranges::find(kShown, warning.kind) == std::end(kShown)) {
        report_.notes.push_back(std::move(warning.text));
      }
    }
  }

  // Puts the best model in the place of the output.
  void Place() {
    if (!is_kept_) {
      quantized_ = trials_.Quantize(output_, best_candidate_.config,
                                    best_candidate_.has_fastest_sums);  // the same bytes again
      return;
    }
    const fs::path old_data = graph::ReplacedDataFile(output_);
    Rename(kept_.path(), output_);
    std::error_code ignored;
    if (!old_data.empty()) fs::remove(old_data, ignored);
  }

  const AutoOptions& options_;
  fs::path output_;
  Trials trials_;
  ScratchFolder folder_;
  Candidate trial_, kept_;
  AutoReport report_;
  std::vector<AutoCandidate> candidates_;
  std::optional<size_t> best_;
  AutoCandidate best_candidate_;
  std::vector<TrialFigures> figures_;                      // of the trials without an error,
  std::vector<std::pair<size_t, AutoCandidate>> figured_;  // and which these are
  QuantizeReport quantized_;                               // of the best one
  bool is_kept_ = false;
  const std::optional<double> load_ = SystemLoad();  // before any work
};

// Checks before any work that the output does not replace the model, which the page and the command
// that makes the file again read.
void CheckOutput(const AutoOptions& options) {
  std::error_code ignored;
  if (fs::equivalent(options.model, options.output, ignored)) {
    Fail(ErrorCode::kInvalidArgument, "the output is the model itself, '{}': choose another name",
         PathText(options.model));
  }
  const AtomicFile probe(options.output);
}

// Checks before any work that the page can be written, and that it replaces no model.
void CheckPage(const AutoOptions& options) {
  if (options.page.empty()) return;
  std::error_code ignored;
  const fs::path page = fs::weakly_canonical(options.page, ignored);
  for (const fs::path* const model : {&options.model, &options.output}) {
    if (page != fs::weakly_canonical(*model, ignored)) continue;
    Fail(ErrorCode::kInvalidArgument,
         "'{}' is the name of a model: choose another name for the page", PathText(options.page));
  }
  const AtomicFile probe(options.page);
}

}  // namespace

AutoReport Auto(const AutoOptions& options) {
  if (!(options.tolerable_loss >= 0)) {
    Fail(ErrorCode::kInvalidArgument, "a tolerable loss is 0 or more, not {}",
         options.tolerable_loss);
  }
  if (options.max_trials == 0) Fail(ErrorCode::kInvalidArgument, "there must be a trial");
  CheckOutput(options);
  CheckPage(options);
  evaluate::FilesContent(evaluate::ParseTask(options.task));  // refuses what cannot be read
  JsonFile report_file(options.report);
  AutoRun run(options);
  AutoReport report = run.Run();
  report_file.Write(ToJson(report));
  run.WritePage(report);
  return report;
}

std::vector<size_t> FrontOf(const AutoReport& report) {
  std::vector<size_t> front;
  for (size_t i = 0; i < report.trials.size(); ++i) {
    if (report.trials[i].error.empty() && report.trials[i].loss) front.push_back(i);
  }
  const auto key = [&](size_t i) {
    return std::tuple(report.trials[i].file_bytes, *report.trials[i].loss);
  };
  std::ranges::sort(front, {}, key);
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(front, [&](size_t i) {
    const bool is_beaten = !(*report.trials[i].loss < least);
    if (!is_beaten) least = *report.trials[i].loss;
    return is_beaten;
  });
  return front;
}

nlohmann::ordered_json ToJson(const AutoReport& report) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json trials = Json::array();
  for (const AutoTrial& trial : report.trials) {
    Json json{{"config", trial.config}};
    if (!trial.command.empty()) json["command"] = trial.command;
    if (trial.error.empty()) {
      json["loss"] = number(trial.loss);
      json["file_bytes"] = trial.file_bytes;
      json["time_ratio"] = number(trial.time_ratio);
      json["keeps_limits"] = trial.keeps_limits;
      if (!trial.keeps_limits) json["limits_missed"] = trial.limits_missed;
      if (trial.metric) json["metric"] = *trial.metric;
      if (trial.worst_head) json["worst_output"] = trial.worst_head->output;
      if (trial.evaluation) json["evaluation"] = evaluate::ToJson(*trial.evaluation);
    } else {
      json["error"] = trial.error;
    }
    trials.push_back(std::move(json));
  }
  const bool is_autotune = report.goals.want == Want::kFirst;
  Json json{{is_autotune ? "bitpress_autotune" : "bitpress_auto", 1}, {"measure", report.measure}};
  if (report.reference_metric) json["reference_metric"] = *report.reference_metric;
  json["network"] = WordOf<ops::NetworkKind>(ops::kNetworkKindWords, report.network);
  json["want"] = WordOf<Want>(kWantWords, report.goals.want);
  json["limits"] = report.goals.limits.Text();
  json["float_bytes"] = report.float_bytes;
  json["chosen"] = report.trials[report.chosen].config;
  json["is_tolerable"] = report.is_tolerable;
  json["front"] = Json::array();
  for (const size_t i : FrontOf(report)) json["front"].push_back(report.trials[i].config);
  json["notes"] = report.notes;
  json["trials"] = std::move(trials);
  return json;
}

}  // namespace bitpress::tasks
