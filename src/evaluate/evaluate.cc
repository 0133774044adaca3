#include "evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "evaluate/batches.h"
#include "evaluate/contender.h"
#include "evaluate/greedy_decoder.h"
#include "evaluate/language.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"
#include "evaluate/run_meter.h"
#include "evaluate/state.h"
#include "graph/stored_bytes.h"
#include "runtime/session.h"

namespace bitpress::evaluate {
namespace {

runtime::SessionOptions ToSessionOptions(const EvaluateOptions& options) {
  runtime::SessionOptions result;
  result.num_threads = options.num_threads;
  result.operator_library = options.operator_library;
  return result;
}

// The counts of the samples so far.
struct Counted {
  EvaluationState state;                 // of all batches that ran, but for `language`
  EvaluationState batch;                 // of the batch that runs
  std::optional<LanguageSums> language;  // if there are logits
  data::Failures failures{0};
  std::optional<size_t> logits;  // index of the model's output with the logits of tokens
  std::vector<int64_t> prompt;   // tokens of the first sample
  uint64_t num_prompt_tokens = 0;
  size_t largest_batch = 0;    // samples
  std::vector<double> ratios;  // of the times of both models
  size_t num_batches = 0;
};

}  // namespace

class Evaluator::Impl {
 public:
  explicit Impl(const EvaluateOptions& options)
      : options_(options),
        task_spec_(ParseTask(options.task)),
        file_bytes_(graph::StoredBytes(options.model)),
        model_(options.model, ModelFile(), ToSessionOptions(options)) {
    if (!options.reference.empty()) {
      reference_bytes_ = graph::StoredBytes(options.reference);
      reference_.emplace(options.reference, options.reference, ToSessionOptions(options));
    }
    if (options.batch_size == 0) {
      Fail(ErrorCode::kInvalidArgument, "the batch size is 0, expected 1 or more");
    }
    std::vector<size_t> order(model_.inputs().size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    model_.SetInputOrder(order);
    fixed_batch_size_ = model_.FixedBatchSize();
    if (reference_) PrepareReference();
  }

  // Runs all samples in batches, and measures times beside.
  EvaluationReport Run(data::Source& source) {
    const size_t batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : options_.batch_size;
    is_timed_ = true;
    ForEachBatch(source, batch_size, options_.progress,
                 [&](const data::Batch& batch) { RunOrLeaveOut(batch); });
    if (counted_.state.num_samples == 0) FailEmpty();
    return MakeReport();
  }

  // Runs all samples, one at a time.
  EvaluationState Count(data::Source& source, const ProgressSink& progress) {
    constexpr size_t kReadAtOnce = 8;
    is_timed_ = false;
    ForEachBatch(source, kReadAtOnce, progress,
                 [&](const data::Batch& batch) { RunOneByOne(batch); });
    return std::move(counted_.state);
  }

  const std::vector<data::FailedSample>& failed() const { return counted_.failures.samples(); }

 private:
  // Returns the file of the model, or of a model that computes as the wanted kind of processor
  // does.
  std::filesystem::path ModelFile() {
    processor_.processor = options_.processor.value_or(processors::ThisProcessor());
    processor_.nodes = SaturatingNodesOf(options_.model);
    if (processor_.nodes.empty() || processor_.processor == processors::ThisProcessor())
      return options_.model;
    processors::SimulatedModel simulated;
    const std::filesystem::path file =
        ModelAs(options_.model, processor_.processor, scratch_.path(), simulated);
    processor_.is_simulated = true;
    processor_.not_simulated = simulated.left;
    return file;
  }

  void CompareProcessors(const std::vector<Tensor>& inputs, size_t num_samples) {
    if (processor_.nodes.empty()) return;
    OtherProcessor(options_.model, ToSessionOptions(options_), processor_)
        .Compare(inputs, model_.results(), num_samples);
  }

  void PrepareReference() {
    reference_->SetInputOrder(MatchByName(reference_->inputs(), model_.inputs(), "input"));
    match_ = MatchByName(model_.outputs(), reference_->outputs(), "output");
    const size_t size = reference_->FixedBatchSize();
    if (fixed_batch_size_ > 0 && size > 0 && fixed_batch_size_ != size) {
      Fail(ErrorCode::kInvalidArgument,
           "{} takes batches of {}, its reference {} batches of {}: they cannot be compared",
           PathText(model_.path()), fixed_batch_size_, PathText(reference_->path()), size);
    }
    fixed_batch_size_ = std::max(fixed_batch_size_, size);
  }

  // Calls `run` for all samples.
  void ForEachBatch(data::Source& source, size_t batch_size, const ProgressSink& progress,
                    const std::function<void(const data::Batch&)>& run) {
    counted_ = {};
    runs_.emplace(
        RunMeterSettings{task_spec_, options_.class_output, options_.output_index, options_.hints,
                         options_.tokens.has_value(), options_.on_picture, options_.most_pictures},
        model_.inputs(), model_.outputs());
    counted_.failures = data::Failures(options_.most_failures);
    counted_.state = NoSamples();
    source.Rewind();
    while (const std::optional<data::Batch> batch = source.Next(batch_size)) {
      for (const data::FailedSample& sample : batch->failed) counted_.failures.Add(sample);
      if (batch->num_samples > 0) run(*batch);
      if (progress) progress("evaluate", counted_.state.num_samples, source.num_samples());
    }
    counted_.state.left_out = counted_.failures.SortedNames();
    if (counted_.state.num_samples == 0 && counted_.state.left_out.empty()) FailEmpty();
    FinishState();
  }

  [[noreturn]] static void FailEmpty() {
    Fail(ErrorCode::kInvalidArgument, "there are no samples to evaluate on");
  }

  EvaluationState NoSamples() const {
    EvaluationState state;
    if (reference_) state.outputs.resize(model_.outputs().size());
    return state;
  }

  void RunOneByOne(const data::Batch& batch) {
    if (batch.num_samples == 1 || !batch.HasRows()) return RunOrLeaveOut(batch);
    for (size_t i = 0; i < batch.num_samples; ++i) RunOrLeaveOut(batch.Rows(i, 1));
  }

  // Runs a batch, without the samples in it that fail if these may.
  void RunOrLeaveOut(const data::Batch& batch) {
    try {
      RunBatch(batch);
    } catch (const Error& error) {
      if (runs_->is_choosing()) throw;
      const std::string name = batch.names.empty() ? "a sample" : batch.names[0];
      if (options_.most_failures == 0 || error.code() == ErrorCode::kIo) {
        throw data::ErrorOfSample(name, error);
      }
      if (batch.num_samples > 1 && batch.HasRows()) return RunOneByOne(batch);
      counted_.failures.Add({name, error.what()});
    }
  }

  void RunBatch(const data::Batch& batch) {
    size_t size = batch.num_samples;
    counted_.largest_batch = std::max(counted_.largest_batch, size);
    std::vector<Tensor> padded;
    if (size < fixed_batch_size_ && batch.HasRows()) {
      padded = batch.inputs;
      PadBatch(padded, size, fixed_batch_size_);
      size = fixed_batch_size_;
    }
    const std::vector<Tensor>& inputs = padded.empty() ? batch.inputs : padded;
    if (counted_.num_batches == 0 && is_timed_) {
      model_.WarmUp(inputs);
      CompareProcessors(inputs, batch.num_samples);
      if (reference_) reference_->WarmUp(inputs);
    }
    RunBoth(batch, inputs);

    // A batch counts only as a whole, because any step may find that a sample is wrong.
    counted_.batch = NoSamples();
    if (options_.tokens) PredictTokens(batch, inputs);
    const std::vector<Output> outputs = model_.TakeOutputs(counted_.logits);
    const std::vector<Output> wanted =
        reference_ ? reference_->TakeOutputs(ReferenceLogits()) : std::vector<Output>();
    MeasuredRun run{batch, inputs, size, outputs};
    for (size_t i = 0; i < (reference_ ? outputs.size() : 0); ++i) {
      run.wanted.push_back(&wanted[match_[i]]);
    }
    // Parts may find different tasks, so that it is measured in them if it is named.
    const bool is_named = task_spec_.task != Task::kFind;
    run.is_task_measured = (is_timed_ || is_named) && !counted_.logits;
    runs_->Add(run, counted_.batch);
    AddBatch();
  }

  // Runs both models, the reference only where its run is not known.
  void RunBoth(const data::Batch& batch, const std::vector<Tensor>& inputs) {
    if (!reference_) {
      model_.Run(inputs);
      return;
    }
    // Both models run the first samples, for the times: two batches, so that each goes first once.
    constexpr size_t kTimedBatches = 2;
    constexpr uint64_t kTimedSamples = 32;
    const bool is_timed =
        counted_.num_batches < kTimedBatches || counted_.state.num_samples < kTimedSamples;
    const ReferenceRuns::Key key{counted_.num_batches, batch.names};
    const auto& shared = options_.reference_runs;
    const ReferenceRuns::Run* const known = shared && !is_timed ? shared->Find(key) : nullptr;
    if (known != nullptr) {
      model_.Run(inputs);
      return reference_->TakeRun(known->results, known->ms);
    }
    const double reference_ms = TimeBoth(inputs, is_timed_ && is_timed);
    if (shared) shared->Keep(key, reference_->results(), reference_ms);
  }

  // Runs both models, short runs three times if `is_repeated`: the shortest of each is the one that
  // the rest of the machine disturbed least. Returns the reference's time in milliseconds.
  double TimeBoth(const std::vector<Tensor>& inputs, bool is_repeated) {
    constexpr size_t kRounds = 3;
    constexpr double kShortMs = 20;
    double model_ms = std::numeric_limits<double>::infinity(), reference_ms = model_ms;
    const auto run = [&](Contender& contender, double& ms) {
      ms = std::min(ms, contender.RunUncounted(inputs));
    };
    for (size_t i = 0; i == 0 || (is_repeated && i < kRounds && model_ms < kShortMs); ++i) {
      // The model that runs second finds warmer caches, so the models take turns.
      const bool reference_first = (counted_.num_batches + i) % 2 == 1;
      if (reference_first) run(*reference_, reference_ms);
      run(model_, model_ms);
      if (!reference_first) run(*reference_, reference_ms);
    }
    model_.Count(model_ms);
    reference_->Count(reference_ms);
    counted_.ratios.push_back(model_ms / std::max(reference_ms, 1e-6));
    return reference_ms;
  }

  void AddBatch() {
    if (counted_.batch.language) {
      if (!counted_.language) counted_.language.emplace();
      counted_.language->Add(*std::exchange(counted_.batch.language, std::nullopt));
    }
    counted_.state.Merge(counted_.batch);
    if (!runs_->class_output()) counted_.state.agreements = {}, counted_.state.expected = {};
    ++counted_.num_batches;
  }

  std::optional<size_t> ReferenceLogits() const {
    return counted_.logits && reference_ ? std::optional<size_t>(match_[*counted_.logits])
                                         : std::nullopt;
  }

  // Measures the predictions of the last runs. Their logits are large, so that they are read as
  // they are, a row at a time, and not with the other outputs.
  void PredictTokens(const data::Batch& batch, const std::vector<Tensor>& inputs) {
    const Tensor ids = IdsOf(*options_.tokens, inputs);
    if (counted_.num_batches == 0) {
      std::vector<std::string> names;
      for (const auto& output : model_.outputs()) names.push_back(output.name);
      counted_.logits = LanguageMeter::FindLogits(names, model_.results(), ids);
      const auto first = ids.values<int64_t>().first(static_cast<size_t>(ids.dims[1]));
      counted_.prompt.assign(first.begin(), first.end());
    }
    if (!counted_.logits) return;
    if (!meter_) meter_.emplace(static_cast<size_t>(options_.num_threads));
    const Tensor* const wanted = reference_ ? &reference_->results()[*ReferenceLogits()] : nullptr;
    counted_.batch.language =
        WithContext(fmt::format("output '{}'", model_.outputs()[*counted_.logits].name), [&] {
          return meter_->Measure(ids, model_.results()[*counted_.logits], wanted,
                                 batch.num_samples);
        });
    counted_.num_prompt_tokens += static_cast<uint64_t>(ids.num_elements());
  }

  // Continues the first half of the first sample, at most 64 tokens of it.
  std::optional<DecodingReport> Decode() {
    if (options_.num_decoded == 0) return std::nullopt;
    constexpr size_t kLongestPrompt = 64;
    // No position beyond those of a sample, which may be all that the model knows.
    const size_t length = counted_.prompt.size();
    counted_.prompt.resize(std::clamp<size_t>(length / 2, 1, kLongestPrompt));
    const size_t num_tokens = std::min(options_.num_decoded, length - counted_.prompt.size());
    if (num_tokens == 0) return std::nullopt;
    std::optional<LanguageModel> reference;
    if (reference_ && options_.reference_tokens) {
      reference = {&reference_->session(), &*options_.reference_tokens, *ReferenceLogits()};
    }
    return MeasureDecoding({&model_.session(), &*options_.tokens, *counted_.logits}, reference,
                           counted_.prompt, num_tokens);
  }

  // Adds what is known at the end.
  void FinishState() {
    counted_.state.model.name = PathText(options_.model.filename());
    counted_.state.model.file_bytes = file_bytes_;
    if (reference_) {
      counted_.state.reference.name = PathText(options_.reference.filename());
      counted_.state.reference.file_bytes = reference_bytes_;
    }
    counted_.state.processor = processor_.processor;
    counted_.state.depends_on_processor = !processor_.nodes.empty();
    if (!is_timed_) counted_.state.task = runs_->StateOfTask();
    for (const auto& output : model_.outputs()) counted_.state.output_names.push_back(output.name);
    if (const std::optional<size_t> classes = runs_->class_output()) {
      counted_.state.class_output = counted_.state.output_names[*classes];
    }
    if (!counted_.language) return;
    counted_.state.language = counted_.language;
    counted_.state.num_nonfinite += counted_.state.language->num_nonfinite;
    if (!reference_) return;
    counted_.state.outputs[*counted_.logits].Add(counted_.state.language->comparison);
    if (options_.output_index.value_or(*counted_.logits) == *counted_.logits) {
      counted_.state.all.Add(counted_.state.language->comparison);
    }
  }

  void AddLanguageTimes(LanguageReport& report) {
    const double num_tokens = static_cast<double>(counted_.num_prompt_tokens);
    report.prompt_tokens_per_s = 1000 * num_tokens / std::max(model_.time_ms(), 1e-6);
    if (reference_) {
      report.reference_prompt_tokens_per_s =
          1000 * num_tokens / std::max(reference_->time_ms(), 1e-6);
    }
    report.decoding = Decode();
  }

  EvaluationReport MakeReport() {
    EvaluationReport report = ReportOf(counted_.state);
    report.has_times = true;
    report.is_processor_time = model_.IsOfProcessor();
    report.model = options_.model;
    report.reference = options_.reference;
    report.batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : counted_.largest_batch;
    report.processor = processor_;
    report.time_ms = model_.time_ms();
    report.load_ms = model_.load_ms();
    report.memory_bytes = model_.memory_bytes();
    if (report.language) AddLanguageTimes(*report.language);
    runs_->AddTask(counted_.state, report);
    if (reference_) {
      report.reference_time_ms = reference_->time_ms();
      report.reference_load_ms = reference_->load_ms();
      report.reference_memory_bytes = reference_->memory_bytes();
      report.time_ratio = Median(counted_.ratios);
    }
    return report;
  }

  EvaluateOptions options_;
  TaskSpec task_spec_;
  uint64_t file_bytes_ = 0, reference_bytes_ = 0;
  ScratchFolder scratch_;
  ProcessorReport processor_;
  Contender model_;
  std::optional<Contender> reference_;
  size_t fixed_batch_size_ = 0;  // samples that the models fix for one run; 0: any number
  std::optional<RunMeter> runs_;
  std::vector<size_t> match_;  // index of the reference's output for each of the model's
  std::optional<LanguageMeter> meter_;
  bool is_timed_ = true;
  Counted counted_;
};

Evaluator::Evaluator(const EvaluateOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

EvaluationReport Evaluator::Run(data::Source& source) { return impl_->Run(source); }

EvaluationState Evaluator::Count(data::Source& source, const ProgressSink& progress) {
  return impl_->Count(source, progress);
}

const std::vector<data::FailedSample>& Evaluator::failed() const { return impl_->failed(); }

EvaluationReport Evaluate(const EvaluateOptions& options, data::Source& source) {
  return Evaluator(options).Run(source);
}

}  // namespace bitpress::evaluate
