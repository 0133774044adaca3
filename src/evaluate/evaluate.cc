#include "evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "evaluate/contender.h"
#include "evaluate/greedy_decoder.h"
#include "evaluate/language.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"
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

// Returns the ids of a batch as INT64.
Tensor IdsOf(const data::TokenInputs& inputs, const data::Batch& batch) {
  const Tensor& ids = batch.inputs[inputs.ids_index()];
  if (ids.type == DataType::kInt64) return ids;
  const std::span<const int32_t> narrow = ids.values<int32_t>();
  Tensor result{.type = DataType::kInt64, .dims = ids.dims, .bytes = {}};
  result.bytes.resize(narrow.size() * sizeof(int64_t));
  std::copy(narrow.begin(), narrow.end(), result.values<int64_t>().begin());
  return result;
}

// Returns, for each value of `wanted`, the index of the value of `found` with its name. If a name
// is missing, values are matched by position. Throws if their numbers differ too.
std::vector<size_t> MatchByName(const std::vector<runtime::ValueDescription>& wanted,
                                const std::vector<runtime::ValueDescription>& found,
                                std::string_view what) {
  std::vector<size_t> result;
  for (const runtime::ValueDescription& value : wanted) {
    const auto match = std::find_if(found.begin(), found.end(),
                                    [&](const auto& other) { return other.name == value.name; });
    if (match == found.end()) break;
    result.push_back(static_cast<size_t>(match - found.begin()));
  }
  if (result.size() == wanted.size()) return result;
  if (wanted.size() != found.size()) {
    Fail(ErrorCode::kInvalidArgument,
         "the model and its reference have {} and {} {}s with other names; compare models of the "
         "same network",
         found.size(), wanted.size(), what);
  }
  for (size_t i = 0; i < result.size(); ++i) result[i] = i;
  for (size_t i = result.size(); i < wanted.size(); ++i) result.push_back(i);
  return result;
}

// Fills a batch up to `size` samples with copies of its last one.
void PadBatch(std::vector<Tensor>& inputs, size_t num_samples, size_t size) {
  for (Tensor& input : inputs) {
    if (input.dims.empty() || input.dims[0] != static_cast<int64_t>(num_samples)) continue;
    const size_t row_bytes = input.bytes.size() / num_samples;
    input.bytes.resize(row_bytes * size);
    for (size_t i = num_samples; i < size; ++i) {
      std::memcpy(input.bytes.data() + i * row_bytes,
                  input.bytes.data() + (num_samples - 1) * row_bytes, row_bytes);
    }
    input.dims[0] = static_cast<int64_t>(size);
  }
}

// One call of Evaluate.
class Evaluation {
 public:
  Evaluation(const EvaluateOptions& options, data::Source& source)
      : options_(options),
        source_(source),
        model_(options.model, ModelFile(), ToSessionOptions(options)) {
    if (!options.reference.empty()) {
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
  EvaluationReport Run() {
    const size_t batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : options_.batch_size;
    ForEachBatch(batch_size, [&](data::Batch& batch) { RunBatch(batch); });
    return MakeReport();
  }

  // Runs all samples, one at a time.
  EvaluationState Count() {
    constexpr size_t kReadAtOnce = 8;
    is_timed_ = false;
    ForEachBatch(kReadAtOnce, [&](data::Batch& batch) {
      if (batch.num_samples == 1 || !batch.HasRows()) {
        RunBatch(batch);
        return;
      }
      for (size_t i = 0; i < batch.num_samples; ++i) {
        data::Batch one = batch.Rows(i, 1);
        RunBatch(one);
      }
    });
    return std::move(state_);
  }

 private:
  // Returns the file of the model, or of a model that computes as the wanted kind of processor
  // does.
  std::filesystem::path ModelFile() {
    processor_.processor = options_.processor.value_or(ThisProcessor());
    processor_.nodes = SaturatingNodesOf(options_.model);
    if (processor_.nodes.empty() || processor_.processor == ThisProcessor()) return options_.model;
    SimulatedModel simulated;
    const std::filesystem::path file =
        ModelAs(options_.model, processor_.processor, scratch_.path(), simulated);
    processor_.is_simulated = true;
    processor_.not_simulated = simulated.left;
    return file;
  }

  void CompareProcessors(const data::Batch& batch) {
    if (processor_.nodes.empty()) return;
    OtherProcessor(options_.model, ToSessionOptions(options_), processor_)
        .Compare(batch.inputs, model_.results(), batch.num_samples);
  }

  void PrepareReference() {
    reference_->SetInputOrder(MatchByName(reference_->inputs(), model_.inputs(), "input"));
    match_ = MatchByName(model_.outputs(), reference_->outputs(), "output");
    state_.outputs.resize(model_.outputs().size());
    const size_t size = reference_->FixedBatchSize();
    if (fixed_batch_size_ > 0 && size > 0 && fixed_batch_size_ != size) {
      Fail(ErrorCode::kInvalidArgument,
           "{} takes batches of {}, its reference {} batches of {}: they cannot be compared",
           model_.path().string(), fixed_batch_size_, reference_->path().string(), size);
    }
    fixed_batch_size_ = std::max(fixed_batch_size_, size);
  }

  // Calls `run` for all samples.
  void ForEachBatch(size_t batch_size, const std::function<void(data::Batch&)>& run) {
    source_.Rewind();
    while (std::optional<data::Batch> batch = source_.Next(batch_size)) {
      if (batch->num_samples == 0) continue;
      run(*batch);
      if (options_.progress) {
        options_.progress("evaluate", state_.num_samples, source_.num_samples());
      }
    }
    if (state_.num_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "there are no samples to evaluate on");
    }
    FinishState();
  }

  void RunBatch(data::Batch& batch) {
    size_t size = batch.num_samples;
    largest_batch_ = std::max(largest_batch_, size);
    if (size < fixed_batch_size_ && batch.HasRows()) {
      PadBatch(batch.inputs, size, fixed_batch_size_);
      size = fixed_batch_size_;
    }
    if (num_batches_ == 0 && is_timed_) {
      model_.WarmUp(batch.inputs);
      CompareProcessors(batch);
      if (reference_) reference_->WarmUp(batch.inputs);
    }
    // The model that runs second finds warmer caches, so the models take turns.
    double reference_ms = 0;
    const bool reference_first = num_batches_ % 2 == 1;
    if (reference_ && reference_first) reference_ms = reference_->Run(batch.inputs);
    const double model_ms = model_.Run(batch.inputs);
    if (reference_ && !reference_first) reference_ms = reference_->Run(batch.inputs);
    if (reference_) ratios_.push_back(model_ms / std::max(reference_ms, 1e-6));

    if (options_.tokens) PredictTokens(batch);
    const std::vector<Output> outputs = model_.TakeOutputs(logits_);
    const std::vector<Output> wanted =
        reference_ ? reference_->TakeOutputs(ReferenceLogits()) : std::vector<Output>();
    if (num_batches_ == 0) FindClassOutput(outputs, size);
    CountNonfinite(outputs, batch.num_samples, size);
    if (reference_) Compare(outputs, wanted, batch.num_samples, size);
    if (class_index_) CountClasses(outputs, wanted, batch, size);
    state_.num_samples += batch.num_samples;
    ++num_batches_;
  }

  std::optional<size_t> ReferenceLogits() const {
    return logits_ && reference_ ? std::optional<size_t>(match_[*logits_]) : std::nullopt;
  }

  // Measures the predictions of the last runs. Their logits are large, so that they are read as
  // they are, a row at a time, and not with the other outputs.
  void PredictTokens(const data::Batch& batch) {
    const Tensor ids = IdsOf(*options_.tokens, batch);
    if (num_batches_ == 0) {
      std::vector<std::string> names;
      for (const auto& output : model_.outputs()) names.push_back(output.name);
      logits_ = LanguageMeter::FindLogits(names, model_.results(), ids);
      if (logits_) language_.emplace(static_cast<size_t>(options_.num_threads));
      const auto first = ids.values<int64_t>().first(static_cast<size_t>(ids.dims[1]));
      prompt_.assign(first.begin(), first.end());
    }
    if (!logits_) return;
    const Tensor* const wanted = reference_ ? &reference_->results()[*ReferenceLogits()] : nullptr;
    WithContext(fmt::format("output '{}'", model_.outputs()[*logits_].name), [&] {
      language_->Add(ids, model_.results()[*logits_], wanted, batch.num_samples);
    });
    num_prompt_tokens_ += static_cast<uint64_t>(ids.num_elements());
  }

  // Continues the first half of the first sample, at most 64 tokens of it.
  std::optional<DecodingReport> Decode() {
    if (options_.num_decoded == 0) return std::nullopt;
    constexpr size_t kLongestPrompt = 64;
    // No position beyond those of a sample, which may be all that the model knows.
    const size_t length = prompt_.size();
    prompt_.resize(std::clamp<size_t>(length / 2, 1, kLongestPrompt));
    const size_t num_tokens = std::min(options_.num_decoded, length - prompt_.size());
    if (num_tokens == 0) return std::nullopt;
    std::optional<LanguageModel> reference;
    if (reference_ && options_.reference_tokens) {
      reference = {&reference_->session(), &*options_.reference_tokens, *ReferenceLogits()};
    }
    return MeasureDecoding({&model_.session(), &*options_.tokens, *logits_}, reference, prompt_,
                           num_tokens);
  }

  // Adds what is known at the end.
  void FinishState() {
    state_.model.name = options_.model.filename().string();
    state_.model.file_bytes = graph::StoredBytes(options_.model);
    if (reference_) {
      state_.reference.name = options_.reference.filename().string();
      state_.reference.file_bytes = graph::StoredBytes(options_.reference);
    }
    state_.processor = processor_.processor;
    state_.depends_on_processor = !processor_.nodes.empty();
    for (const auto& output : model_.outputs()) state_.output_names.push_back(output.name);
    if (class_index_) state_.class_output = state_.output_names[*class_index_];
    if (!language_) return;
    state_.language = language_->sums();
    state_.num_nonfinite += state_.language->num_nonfinite;
    if (!reference_) return;
    state_.outputs[*logits_].Add(state_.language->comparison);
    if (options_.output_index.value_or(*logits_) == *logits_) {
      state_.all.Add(state_.language->comparison);
    }
  }

  void AddLanguageTimes(LanguageReport& report) {
    const double num_tokens = static_cast<double>(num_prompt_tokens_);
    report.prompt_tokens_per_s = 1000 * num_tokens / std::max(model_.time_ms(), 1e-6);
    if (reference_) {
      report.reference_prompt_tokens_per_s =
          1000 * num_tokens / std::max(reference_->time_ms(), 1e-6);
    }
    report.decoding = Decode();
  }

  [[noreturn]] void FailNoScores(const Output& output, size_t index) const {
    Fail(ErrorCode::kInvalidArgument,
         "output '{}' has the shape [{}], expected [samples, classes] of floating-point scores",
         model_.outputs()[index].name, fmt::join(output.dims, ", "));
  }

  void FindClassOutput(const std::vector<Output>& outputs, size_t size) {
    const auto& descriptions = model_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!options_.class_output.empty() && descriptions[i].name != options_.class_output) continue;
      if (outputs[i].HasClassScores(size)) {
        class_index_ = i;
        return;
      }
      if (!options_.class_output.empty()) FailNoScores(outputs[i], i);
    }
    if (options_.class_output.empty()) return;
    std::vector<std::string> names;
    for (const auto& description : descriptions) names.push_back(description.name);
    Fail(ErrorCode::kInvalidArgument, "{} has no output '{}'; it has: {}", model_.path().string(),
         options_.class_output, fmt::join(names, ", "));
  }

  void CountNonfinite(const std::vector<Output>& outputs, size_t num_samples, size_t size) {
    for (const Output& output : outputs) {
      const size_t counted = output.IsPerSample(size) ? output.values.size() / size * num_samples
                                                      : output.values.size();
      state_.num_nonfinite += static_cast<uint64_t>(std::count_if(
          output.values.begin(), output.values.begin() + static_cast<ptrdiff_t>(counted),
          [](double value) { return !std::isfinite(value); }));
    }
  }

  void Compare(const std::vector<Output>& outputs, const std::vector<Output>& wanted,
               size_t num_samples, size_t size) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& found = outputs[i];
      const Output& reference = wanted[match_[i]];
      // Outputs that are whole numbers, such as classes, indices and codes, have no distance.
      if (found.values.empty() || reference.values.empty()) continue;
      if (found.dims != reference.dims) {
        Fail(ErrorCode::kInvalidArgument,
             "output '{}' has the shape [{}], the reference's [{}]: they cannot be compared",
             model_.outputs()[i].name, fmt::join(found.dims, ", "),
             fmt::join(reference.dims, ", "));
      }
      const bool per_sample = found.IsPerSample(size);
      const size_t num_rows = per_sample ? size : 1;
      for (size_t row = 0; row < (per_sample ? num_samples : 1); ++row) {
        const auto reference_row = reference.Row(row, num_rows);
        const auto found_row = found.Row(row, num_rows);
        state_.outputs[i].Add(reference_row, found_row);
        if (options_.output_index.value_or(i) == i) state_.all.Add(reference_row, found_row);
      }
    }
  }

  void CountClasses(const std::vector<Output>& outputs, const std::vector<Output>& wanted,
                    const data::Batch& batch, size_t size) {
    const Output& scores = outputs[*class_index_];
    if (!scores.HasClassScores(size)) FailNoScores(scores, *class_index_);
    const Output* reference_scores = reference_ ? &wanted[match_[*class_index_]] : nullptr;
    if (reference_scores != nullptr && reference_scores->values.empty()) reference_scores = nullptr;
    for (size_t i = 0; i < batch.num_samples; ++i) {
      const auto row = scores.Row(i, size);
      if (reference_scores != nullptr) {
        const auto top = TopClass(row);
        state_.agreements.Add(top && top == TopClass(reference_scores->Row(i, size))
                                  ? std::optional<size_t>(0)
                                  : std::nullopt);
      }
      if (batch.labels.empty()) continue;
      const int64_t label = batch.labels[i];
      if (label < 0 || label >= static_cast<int64_t>(row.size())) {
        Fail(ErrorCode::kInvalidArgument,
             "'{}' has class {}, but output '{}' has the classes 0 to {}",
             i < batch.names.size() ? batch.names[i] : "a sample", label,
             model_.outputs()[*class_index_].name, row.size() - 1);
      }
      state_.ranks.Add(RankOf(row, static_cast<size_t>(label)));
      if (reference_scores != nullptr) {
        state_.reference_ranks.Add(
            RankOf(reference_scores->Row(i, size), static_cast<size_t>(label)));
      }
    }
  }

  EvaluationReport MakeReport() {
    EvaluationReport report = ReportOf(state_);
    report.has_times = true;
    report.model = options_.model;
    report.reference = options_.reference;
    report.batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : largest_batch_;
    report.processor = processor_;
    report.time_ms = model_.time_ms();
    report.load_ms = model_.load_ms();
    report.memory_bytes = model_.memory_bytes();
    if (report.language) AddLanguageTimes(*report.language);
    if (reference_) {
      report.reference_time_ms = reference_->time_ms();
      report.reference_load_ms = reference_->load_ms();
      report.reference_memory_bytes = reference_->memory_bytes();
      report.time_ratio = Median(ratios_);
    }
    return report;
  }

  const EvaluateOptions& options_;
  data::Source& source_;
  ScratchFolder scratch_;
  ProcessorReport processor_;
  Contender model_;
  std::optional<Contender> reference_;
  size_t fixed_batch_size_ = 0;        // samples that the models fix for one run; 0: any number
  std::vector<size_t> match_;          // index of the reference's output for each of the model's
  std::optional<size_t> class_index_;  // index of the model's output with the class scores
  std::optional<size_t> logits_;       // index of the model's output with the logits of tokens
  std::optional<LanguageMeter> language_;
  std::vector<int64_t> prompt_;  // tokens of the first sample
  uint64_t num_prompt_tokens_ = 0;
  size_t largest_batch_ = 0;  // samples
  std::vector<double> ratios_;
  size_t num_batches_ = 0;
  bool is_timed_ = true;
  EvaluationState state_;
};

}  // namespace

EvaluationReport Evaluate(const EvaluateOptions& options, data::Source& source) {
  return Evaluation(options, source).Run();
}

EvaluationState Count(const EvaluateOptions& options, data::Source& source) {
  return Evaluation(options, source).Count();
}

}  // namespace bitpress::evaluate
