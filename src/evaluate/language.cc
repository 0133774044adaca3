#include "evaluate/language.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "evaluate/outputs.h"

namespace bitpress::evaluate {
namespace {

// The figures of one row of logits.
struct RowResult {
  double loss = 0, reference_loss = 0;
  double divergence = 0;
  bool agrees = false;
  uint64_t num_nonfinite = 0;
  OutputComparison comparison;
};

RowResult MeasureRow(const Tensor& logits, const Tensor* reference, size_t row, size_t next) {
  const auto size = static_cast<size_t>(logits.dims[2]);
  const std::vector<double> scores = RowOf(logits, row, size);
  const std::vector<double> logs = LogSoftmax(scores);
  RowResult result;
  result.loss = -logs[next];
  result.num_nonfinite = static_cast<uint64_t>(std::count_if(
      scores.begin(), scores.end(), [](double score) { return !std::isfinite(score); }));
  if (reference == nullptr) return result;
  const std::vector<double> wanted = RowOf(*reference, row, size);
  const std::vector<double> wanted_logs = LogSoftmax(wanted);
  result.reference_loss = -wanted_logs[next];
  result.divergence = DivergenceOfLogs(wanted_logs, logs);
  const std::optional<size_t> top = TopClass(scores);
  result.agrees = top && top == TopClass(wanted);
  result.comparison.Add(wanted, scores);
  return result;
}

}  // namespace

std::optional<size_t> LanguageMeter::FindLogits(std::span<const std::string> names,
                                                std::span<const Tensor> outputs,
                                                const Tensor& ids) {
  BITPRESS_DCHECK(names.size() == outputs.size());
  const std::span<const int64_t> tokens = ids.values<int64_t>();
  if (tokens.empty() || ids.dims[1] < 2) return std::nullopt;
  const int64_t largest = *std::max_element(tokens.begin(), tokens.end());
  std::optional<size_t> found;
  size_t num_found = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    const bool fits = IsFloat(output.type) && output.dims.size() == 3 &&
                      output.dims[0] == ids.dims[0] && output.dims[1] == ids.dims[1] &&
                      output.dims[2] > largest;
    if (!fits) continue;
    if (names[i] == "logits") return i;
    found = i;
    ++num_found;
  }
  return num_found == 1 ? found : std::nullopt;
}

void LanguageMeter::Add(const Tensor& ids, const Tensor& logits, const Tensor* reference,
                        size_t num_samples) {
  BITPRESS_DCHECK(ids.type == DataType::kInt64 && ids.dims.size() == 2);
  const auto length = static_cast<size_t>(ids.dims[1]);
  const bool fits =
      logits.dims.size() == 3 && logits.dims[0] == ids.dims[0] && logits.dims[1] == ids.dims[1];
  if (!fits || (reference != nullptr && reference->dims != logits.dims)) {
    Fail(ErrorCode::kInvalidArgument,
         "the logits have the shape [{}] for tokens [{}], and the reference's [{}]: they cannot be "
         "compared",
         fmt::join(logits.dims, ", "), fmt::join(ids.dims, ", "),
         reference == nullptr ? "" : fmt::format("{}", fmt::join(reference->dims, ", ")));
  }
  const std::span<const int64_t> tokens = ids.values<int64_t>();
  for (const int64_t token : tokens) {
    if (token >= 0 && token < logits.dims[2]) continue;
    Fail(ErrorCode::kInvalidArgument, "token {} is not in the vocabulary of {}", token,
         logits.dims[2]);
  }
  const size_t num_rows = num_samples * (length - 1);
  // Results of a few rows at a time: their sums are made in the order of the rows.
  const size_t num_at_once = 4 * pool_.num_threads();
  std::vector<RowResult> results;
  for (size_t first = 0; first < num_rows; first += num_at_once) {
    results.assign(std::min(num_at_once, num_rows - first), {});
    pool_.ParallelFor(results.size(), [&](size_t i) {
      const size_t row = (first + i) / (length - 1) * length + (first + i) % (length - 1);
      results[i] = MeasureRow(logits, reference, row, static_cast<size_t>(tokens[row + 1]));
    });
    for (const RowResult& result : results) {
      ++num_tokens_;
      loss_ += result.loss;
      num_nonfinite_ += result.num_nonfinite;
      if (reference == nullptr) continue;
      reference_loss_ += result.reference_loss;
      divergence_ += result.divergence;
      divergences_.push_back(static_cast<float>(result.divergence));
      num_agreeing_ += result.agrees ? 1 : 0;
      comparison_.Add(result.comparison);
    }
  }
}

LanguageReport LanguageMeter::Report() const {
  BITPRESS_DCHECK(num_tokens_ > 0);
  const auto count = static_cast<double>(num_tokens_);
  LanguageReport report;
  report.num_tokens = num_tokens_;
  report.perplexity = std::exp(loss_ / count);
  if (divergences_.empty()) return report;
  report.reference_perplexity = std::exp(reference_loss_ / count);
  report.mean_divergence = divergence_ / count;
  std::vector<float> sorted = divergences_;
  const auto rank = static_cast<size_t>(std::ceil(0.99 * count)) - 1;
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sorted.begin(), at, sorted.end());
  report.divergence_99 = *at;
  report.agreement = static_cast<double>(num_agreeing_) / count;
  return report;
}

}  // namespace bitpress::evaluate
