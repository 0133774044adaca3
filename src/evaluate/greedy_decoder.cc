#include "evaluate/greedy_decoder.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"

namespace bitpress::evaluate {
namespace {

// Returns what stays of a cache's name behind "past_key_values", "past" or "present": ".0.key".
// Outputs and inputs of one cache agree in it.
std::string_view CacheKey(std::string_view name) {
  for (const std::string_view prefix :
       {"past_key_values", "present_key_values", "past", "present"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

}  // namespace

std::optional<GreedyDecoder> GreedyDecoder::Make(const LanguageModel& model) {
  // A model of a fixed size takes no prompt of another length, and no single token behind it.
  if (model.inputs->fixed_batch() > 1 || model.inputs->fixed_length() > 0) return std::nullopt;
  GreedyDecoder decoder(model);
  const std::vector<runtime::ValueDescription>& outputs = model.session->outputs();
  bool has_cache = false;
  for (const data::TokenInput& input : model.inputs->inputs()) {
    decoder.cache_outputs_.push_back(std::nullopt);
    if (input.kind != data::TokenInputKind::kCache) continue;
    const auto match = std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) {
      return output.name.starts_with("present") && output.type == input.type &&
             CacheKey(output.name) == CacheKey(input.name);
    });
    if (match == outputs.end()) return std::nullopt;
    decoder.cache_outputs_.back() = static_cast<size_t>(match - outputs.begin());
    has_cache = true;
  }
  if (!has_cache) return std::nullopt;
  return decoder;
}

int64_t GreedyDecoder::Take(std::span<const int64_t> tokens) {
  Tensor ids{
      .type = DataType::kInt64, .dims = {1, static_cast<int64_t>(tokens.size())}, .bytes = {}};
  ids.bytes.resize(tokens.size_bytes());
  std::copy(tokens.begin(), tokens.end(), ids.values<int64_t>().begin());
  std::vector<Tensor> values = model_.inputs->Make(ids, num_taken_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (cache_outputs_[i] && num_taken_ > 0) values[i] = std::move(caches_[*cache_outputs_[i]]);
  }
  const auto begin = std::chrono::steady_clock::now();
  caches_ = model_.session->Run(values);
  const auto end = std::chrono::steady_clock::now();
  last_run_ms_ = std::chrono::duration<double, std::milli>(end - begin).count();
  num_taken_ += static_cast<int64_t>(tokens.size());

  const Tensor& logits = caches_[model_.logits];
  if (!IsFloat(logits.type) || logits.dims.empty() || logits.num_elements() == 0) {
    Fail(ErrorCode::kInvalidModel, "output '{}' has no scores of a next token",
         model_.session->outputs()[model_.logits].name);
  }
  const auto size = static_cast<size_t>(logits.dims.back());
  const size_t last_row = static_cast<size_t>(logits.num_elements()) / size - 1;
  // A row with a NaN has no likeliest token; any token will do for the time that this measures.
  return static_cast<int64_t>(TopClass(RowOf(logits, last_row, size)).value_or(0));
}

std::optional<DecodingReport> MeasureDecoding(const LanguageModel& model,
                                              const std::optional<LanguageModel>& reference,
                                              const std::vector<int64_t>& prompt,
                                              size_t num_tokens) {
  BITPRESS_DCHECK(!prompt.empty() && num_tokens > 0);
  std::optional<GreedyDecoder> decoder = GreedyDecoder::Make(model);
  if (!decoder) return std::nullopt;
  std::optional<GreedyDecoder> other = reference ? GreedyDecoder::Make(*reference) : std::nullopt;
  std::vector<int64_t> tokens = prompt, other_tokens = prompt;
  double ms = 0, other_ms = 0;
  size_t num_same = 0;
  bool is_same = true;
  for (size_t i = 0; i <= num_tokens; ++i) {
    tokens = {decoder->Take(tokens)};
    if (i > 0) ms += decoder->last_run_ms();  // run 0 is the prompt
    if (!other) continue;
    other_tokens = {other->Take(other_tokens)};
    if (i > 0) other_ms += other->last_run_ms();
    is_same = is_same && tokens == other_tokens;
    if (is_same && i < num_tokens) ++num_same;
  }
  const auto per_second = [&](double total_ms) {
    return 1000 * static_cast<double>(num_tokens) / std::max(total_ms, 1e-6);
  };
  DecodingReport report;
  report.prompt_length = prompt.size();
  report.num_tokens = num_tokens;
  report.tokens_per_s = per_second(ms);
  if (other) {
    report.reference_tokens_per_s = per_second(other_ms);
    report.num_same = num_same;
  }
  return report;
}

}  // namespace bitpress::evaluate
