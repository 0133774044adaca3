// Measures a model on samples: its accuracy against labels, and the closeness of its outputs, its
// time and its size against a reference model. `bitpress evaluate` and the searches use it.
//
// Samples are streamed in batches, so memory does not grow with their number. Photos and tensor
// files come from data/, inference from runtime/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/paths.h"
#include "bitpress/progress.h"
#include "data/source.h"
#include "data/token_inputs.h"
#include "evaluate/language.h"
#include "evaluate/other_processor.h"
#include "evaluate/reference_runs.h"
#include "evaluate/task.h"

namespace bitpress::evaluate {

// The models of an evaluation, and what its callers choose of it.
struct EvaluateSettings {
  std::filesystem::path model;
  // The float model to compare with. Empty: only accuracy, time and size of `model` are measured.
  std::filesystem::path reference;
  // Samples in one run of a model. A model whose first input dimension is fixed gets that many. Its
  // last batch is filled up with copies, which count nowhere.
  size_t batch_size = 20;
  // Runs of the reference that evaluations of the same samples and reference share. Null: none.
  std::shared_ptr<ReferenceRuns> reference_runs = {};
  // The position of the only output whose closeness to the reference's counts. Null: all outputs
  // together.
  std::optional<size_t> output_index = std::nullopt;
  // The kind of processor to measure for. Null: this machine's. Another kind is simulated, and then
  // the times mean nothing.
  std::optional<processors::ProcessorKind> processor = std::nullopt;
  // Samples that cannot be read or run are left out, and so many of them may be. 0: the first one
  // is an Error.
  size_t most_failures = 0;
  // The task in whose terms the model is measured besides, see ParseTask. Evaluator::Count measures
  // it only if it is named.
  std::string task = "auto";
  // Takes the first pictures in which the task has something to draw, and how many of them. May be
  // empty.
  std::function<void(const TaskPicture&)> on_picture = {};
  size_t most_pictures = 6;
};

// If failures are allowed, sources have to keep them (data::SourceOptions).
struct EvaluateOptions : EvaluateSettings {
  int num_threads = 0;  // threads of ONNX Runtime for each model; 0: one per core
  // Name of the output with the class scores. Empty: the first output of probabilities of the shape
  // [N, classes] (further dimensions of 1 are allowed), else the first output of that shape.
  std::string class_output;
  // The inputs of `model` and of `reference` if the samples are token ids: then EvaluationReport
  // has `language`, and the first sample is continued by so many tokens.
  std::optional<data::TokenInputs> tokens = std::nullopt, reference_tokens = std::nullopt;
  TaskHints hints = {};
  size_t num_decoded = 64;                 // 0: decoding is not measured
  std::filesystem::path operator_library;  // as in runtime::SessionOptions
  ProgressSink progress;                   // may be empty; counts samples
};

// The closeness of one floating-point output to the reference's output of the same name, or of the
// same position if the names differ.
struct OutputReport {
  std::string name;
  uint64_t num_values = 0;
  double sqnr_db = 0;
  double cosine = 0;
};
constexpr auto FieldsOf(const OutputReport*) {
  return std::tuple(Field{"name", &OutputReport::name},
                    Field{"num_values", &OutputReport::num_values},
                    Field{"sqnr_db", &OutputReport::sqnr_db,
                          "Signal-to-noise ratio in dB. Infinite without any error."},
                    Field{"cosine", &OutputReport::cosine, "The cosine, averaged over samples."});
}

// The loss of an output besides the one by which a model is measured first.
struct HeadReport {
  std::string output;
  double loss = 0;
  std::string loss_name;  // as TaskReport has it, or "noise": the energy of the error
};
constexpr auto FieldsOf(const HeadReport*) {
  return std::tuple(Field{"output", &HeadReport::output},
                    Field{"loss", &HeadReport::loss, "As a share; 0 without any loss."},
                    Field{"loss_name", &HeadReport::loss_name,
                          "That of its task, or noise: the energy of the error as a share of the "
                          "output's."});
}

// The results of Evaluate.
struct EvaluationReport {
  std::filesystem::path model;
  std::filesystem::path reference;  // empty: none
  size_t num_samples = 0;
  std::vector<std::string> left_out;  // sorted
  size_t num_labelled = 0;
  size_t batch_size = 0;
  std::string class_output;  // empty: the model has no class scores
  std::optional<double> top1, top5;
  std::optional<double> reference_top1, reference_top5;
  std::optional<double> agreement;
  std::optional<double> expected_top1, reference_expected_top1;
  // These are of all floating-point outputs together, or of the one that the options name; see
  // OutputComparison.
  std::optional<double> sqnr_db, cosine, l2;
  bool outputs_identical = false;
  std::vector<OutputReport> outputs;
  // A sample with a NaN among its scores counts as wrong and as not agreeing.
  uint64_t num_nonfinite_values = 0;
  bool has_times = true;
  bool is_processor_time = false;  // of one thread, see RunClock; else the time that passed
  // Without reading the samples. Both models run the same batches, and they take turns to go first.
  // Short runs of the first samples are the shortest of three. If runs of the reference are
  // shared, both run the first samples only, and time_ratio is of these. Before that, the first
  // batch is run once without timing.
  double time_ms = 0;
  std::optional<double> reference_time_ms;
  std::optional<double> time_ratio;
  std::optional<LanguageReport> language;
  std::optional<TaskReport> task;
  // These are of the other outputs of floating-point numbers, of all if there is no class and no
  // task. There are none if a task was named, and without a reference.
  std::vector<HeadReport> heads;
  double load_ms = 0;
  std::optional<double> reference_load_ms;
  std::optional<uint64_t> memory_bytes, reference_memory_bytes;
  ProcessorReport processor;
  bool depends_on_processor = false;
  uint64_t file_bytes = 0;
  std::optional<uint64_t> reference_file_bytes;
};
constexpr auto FieldsOf(const EvaluationReport*) {
  using Report = EvaluationReport;
  constexpr auto text = [](const std::string& value) {
    return value.empty() ? std::nullopt : std::optional(value);
  };
  constexpr auto time = [](const Report& report, double value) {
    return report.has_times ? std::optional(value) : std::nullopt;
  };
  return std::tuple(
      Field{"model", &Report::model},
      ComputedField{"reference",
                    [=](const Report& report) { return text(PathText(report.reference)); }},
      Field{"num_samples", &Report::num_samples},
      Field{"left_out", &Report::left_out,
            "Names of the samples that were left out because they failed."},
      Field{"num_labelled", &Report::num_labelled, "Samples with a label."},
      Field{"batch_size", &Report::batch_size, "Samples in one run, the most of all runs."},
      ComputedField{"class_output", [=](const Report& report) { return text(report.class_output); },
                    "The output with the class scores. None: there is none, and no accuracy is "
                    "given."},
      Field{"top1", &Report::top1, "None without labels or without class scores."},
      Field{"top5", &Report::top5}, Field{"reference_top1", &Report::reference_top1},
      Field{"reference_top5", &Report::reference_top5},
      Field{"agreement", &Report::agreement,
            "Share of the samples for which both models rank the same class first, 0 to 1. None "
            "without a reference or without class scores."},
      Field{"expected_top1", &Report::expected_top1,
            "Share of the samples that the model would rank right if their classes were drawn by "
            "the reference's own probabilities. None where the reference is hardly surer than "
            "chance."},
      Field{"reference_expected_top1", &Report::reference_expected_top1},
      Field{"sqnr_db", &Report::sqnr_db,
            "SQNR in dB of the outputs against the reference's. Infinite if they are identical, "
            "None without a reference."},
      Field{"cosine", &Report::cosine}, Field{"l2", &Report::l2},
      Field{"outputs_identical", &Report::outputs_identical},
      Field{"num_nonfinite_values", &Report::num_nonfinite_values,
            "Values of the model's floating-point outputs that are NaN or infinite."},
      Field{"has_times", &Report::has_times,
            "False for evaluations of parts of the samples: their times are None."},
      Field{"is_processor_time", &Report::is_processor_time,
            "Times of runs are those that a processor gave one thread, not those that passed."},
      ComputedField{"time_ms", [=](const Report& report) { return time(report, report.time_ms); },
                    "Time of all runs in ms."},
      Field{"reference_time_ms", &Report::reference_time_ms},
      Field{"time_ratio", &Report::time_ratio,
            "Median over the batches of the model's time divided by the reference's."},
      ComputedField{"load_ms", [=](const Report& report) { return time(report, report.load_ms); }},
      Field{"reference_load_ms", &Report::reference_load_ms},
      Field{"memory_bytes", &Report::memory_bytes,
            "What loading and the first run took from the system. None if it does not tell."},
      Field{"reference_memory_bytes", &Report::reference_memory_bytes},
      Field{"language", &Report::language,
            "How well tokens are predicted. None unless the data are text or tokens."},
      Field{
          "task", &Report::task,
          "Boxes, masks, embeddings, texts or numbers beside the reference's. None if the outputs "
          "are of no such task."},
      Field{"heads", &Report::heads,
            "The losses of the outputs that neither classes nor the task are about. Empty if a "
            "task was named, for boxes, which are read from all outputs, and for tokens."},
      Field{"processor", &Report::processor,
            "The difference to another kind of processor, measured on the first batch."},
      Field{"depends_on_processor", &Report::depends_on_processor,
            "Some integer products can saturate on processors without VNNI."},
      Field{"file_bytes", &Report::file_bytes, "Bytes of the model and its external data."},
      Field{"reference_file_bytes", &Report::reference_file_bytes},
      Field{"outputs", &Report::outputs, "The closeness of each floating-point output."});
}

struct EvaluationState;  // state.h

// A model, and its reference if there is one, loaded to be measured on samples again and again. One
// thread at a time uses it.
class Evaluator {
 public:
  // Loads the models. Throws Error if a file does not load or inputs do not fit.
  explicit Evaluator(const EvaluateOptions& options);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  // Runs the models on all samples of `source` (from its start) in batches. Throws Error if a label
  // lies beyond the classes, if outputs cannot be compared, or if there is no sample.
  // REQUIRES: `source` was opened with the input names of `model`.
  EvaluationReport Run(data::Source& source);
  // Does the same, but for times, one sample at a time, because ONNX Runtime computes some
  // operators otherwise for batches of one and of several. `progress` counts samples instead of
  // that of the options. Fingerprints are left 0. If all samples failed, it is a state of none.
  EvaluationState Count(data::Source& source, const ProgressSink& progress);
  // Returns the samples that the last call left out, with their errors.
  const std::vector<data::FailedSample>& failed() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs the models once, as Evaluator does.
EvaluationReport Evaluate(const EvaluateOptions& options, data::Source& source);

// Returns the report in JSON: the fields above by name, absent ones null. An infinite sqnr_db is
// null too, as JSON has no infinity; outputs_identical tells the two apart.
nlohmann::ordered_json ToJson(const EvaluationReport& report);

}  // namespace bitpress::evaluate
