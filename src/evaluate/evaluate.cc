#include "evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "evaluate/contender.h"
#include "evaluate/greedy_decoder.h"
#include "evaluate/language.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"
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

  EvaluationReport Run() {
    const size_t batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : options_.batch_size;
    source_.Rewind();
    while (std::optional<data::Batch> batch = source_.Next(batch_size)) {
      if (batch->num_samples == 0) continue;
      RunBatch(*batch);
      if (options_.progress) options_.progress("evaluate", num_samples_, source_.num_samples());
    }
    if (num_samples_ == 0) {
      Fail(ErrorCode::kInvalidArgument, "there are no samples to evaluate on");
    }
    return MakeReport();
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
    runtime::SessionOptions options;
    options.num_threads = options_.num_threads;
    options.operator_library = options_.operator_library;
    OtherProcessor(options_.model, options, processor_)
        .Compare(batch.inputs, model_.results(), batch.num_samples);
  }

  void PrepareReference() {
    reference_->SetInputOrder(MatchByName(reference_->inputs(), model_.inputs(), "input"));
    match_ = MatchByName(model_.outputs(), reference_->outputs(), "output");
    comparisons_.resize(model_.outputs().size());
    const size_t size = reference_->FixedBatchSize();
    if (fixed_batch_size_ > 0 && size > 0 && fixed_batch_size_ != size) {
      Fail(ErrorCode::kInvalidArgument,
           "{} takes batches of {}, its reference {} batches of {}: they cannot be compared",
           model_.path().string(), fixed_batch_size_, reference_->path().string(), size);
    }
    fixed_batch_size_ = std::max(fixed_batch_size_, size);
  }

  void RunBatch(data::Batch& batch) {
    size_t size = batch.num_samples;
    largest_batch_ = std::max(largest_batch_, size);
    if (size < fixed_batch_size_ && batch.HasRows()) {
      PadBatch(batch.inputs, size, fixed_batch_size_);
      size = fixed_batch_size_;
    }
    if (num_batches_ == 0) {
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
    num_samples_ += batch.num_samples;
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

  void AddLanguage(EvaluationReport& report) {
    report.language = language_->Report();
    const double num_tokens = static_cast<double>(num_prompt_tokens_);
    report.language->prompt_tokens_per_s = 1000 * num_tokens / std::max(model_.time_ms(), 1e-6);
    if (reference_) {
      report.language->reference_prompt_tokens_per_s =
          1000 * num_tokens / std::max(reference_->time_ms(), 1e-6);
      comparisons_[*logits_].Add(language_->comparison());
      if (options_.output_index.value_or(*logits_) == *logits_) all_.Add(language_->comparison());
    }
    num_nonfinite_ += language_->num_nonfinite();
    report.language->decoding = Decode();
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
      num_nonfinite_ += static_cast<uint64_t>(std::count_if(
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
        comparisons_[i].Add(reference_row, found_row);
        if (options_.output_index.value_or(i) == i) all_.Add(reference_row, found_row);
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
        agreements_.Add(top && top == TopClass(reference_scores->Row(i, size))
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
      ranks_.Add(RankOf(row, static_cast<size_t>(label)));
      if (reference_scores != nullptr) {
        reference_ranks_.Add(RankOf(reference_scores->Row(i, size), static_cast<size_t>(label)));
      }
    }
  }

  EvaluationReport MakeReport() {
    EvaluationReport report;
    if (language_) AddLanguage(report);
    report.model = options_.model;
    report.reference = options_.reference;
    report.num_samples = num_samples_;
    report.num_labelled = ranks_.num_samples();
    report.batch_size = fixed_batch_size_ > 0 ? fixed_batch_size_ : largest_batch_;
    if (class_index_) report.class_output = model_.outputs()[*class_index_].name;
    if (ranks_.num_samples() > 0) {
      report.top1 = ranks_.Top1();
      report.top5 = ranks_.Top5();
    }
    report.num_nonfinite_values = num_nonfinite_;
    report.processor = processor_;
    report.time_ms = model_.time_ms();
    report.load_ms = model_.load_ms();
    report.memory_bytes = model_.memory_bytes();
    report.file_bytes = graph::StoredBytes(options_.model);
    if (reference_) AddComparison(report);
    return report;
  }

  void AddComparison(EvaluationReport& report) const {
    if (reference_ranks_.num_samples() > 0) {
      report.reference_top1 = reference_ranks_.Top1();
      report.reference_top5 = reference_ranks_.Top5();
    }
    if (agreements_.num_samples() > 0) report.agreement = agreements_.Top1();
    if (all_.num_samples() > 0) {
      report.sqnr_db = all_.SqnrDb();
      report.cosine = all_.Cosine();
      report.l2 = all_.MeanL2();
      report.outputs_identical = all_.is_identical();
    }
    for (size_t i = 0; i < comparisons_.size(); ++i) {
      const OutputComparison& comparison = comparisons_[i];
      if (comparison.num_samples() == 0) continue;
      report.outputs.push_back({model_.outputs()[i].name, comparison.num_values(),
                                comparison.SqnrDb(), comparison.Cosine()});
    }
    report.reference_time_ms = reference_->time_ms();
    report.reference_load_ms = reference_->load_ms();
    report.reference_memory_bytes = reference_->memory_bytes();
    report.time_ratio = Median(ratios_);
    report.reference_file_bytes = graph::StoredBytes(options_.reference);
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
  std::vector<OutputComparison> comparisons_;
  OutputComparison all_;
  RankCounter ranks_;
  RankCounter reference_ranks_;
  RankCounter agreements_;  // rank 0: both models rank the same class first; null: they do not
  uint64_t num_nonfinite_ = 0;
  std::vector<double> ratios_;
  size_t num_samples_ = 0;
  size_t num_batches_ = 0;
};

}  // namespace

EvaluationReport Evaluate(const EvaluateOptions& options, data::Source& source) {
  return Evaluation(options, source).Run();
}

}  // namespace bitpress::evaluate
