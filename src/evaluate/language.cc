#include "evaluate/language.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

// Divergences that share a sign, an exponent and 12 bits of the mantissa are in one bin.
constexpr int kBinShift = 11;
constexpr uint32_t kLastBin = 0x7F800000u >> kBinShift;  // of infinity

uint32_t DivergenceBin(double divergence) {
  const auto value = static_cast<float>(std::max(divergence, 0.0));
  return std::min(std::bit_cast<uint32_t>(value) >> kBinShift, kLastBin);
}

// Returns what the divergences of a bin stay below. Those of the first bin are nothing.
double EndOfBin(uint32_t bin) {
  return bin == 0 ? 0 : double{std::bit_cast<float>(std::min(bin + 1, kLastBin) << kBinShift)};
}

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
  if (result.comparison.has_lost()) {
    result.divergence = std::numeric_limits<double>::infinity();
  }
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

LanguageSums LanguageMeter::Measure(const Tensor& ids, const Tensor& logits,
                                    const Tensor* reference, size_t num_samples) {
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
  // Results of a few rows at a time.
  const size_t num_at_once = 4 * pool_.num_threads();
  std::vector<RowResult> results;
  LanguageSums sums;
  for (size_t first = 0; first < num_rows; first += num_at_once) {
    results.assign(std::min(num_at_once, num_rows - first), {});
    pool_.ParallelFor(results.size(), [&](size_t i) {
      const size_t row = (first + i) / (length - 1) * length + (first + i) % (length - 1);
      results[i] = MeasureRow(logits, reference, row, static_cast<size_t>(tokens[row + 1]));
    });
    for (const RowResult& result : results) {
      ++sums.num_tokens;
      sums.loss.Add(result.loss);
      sums.num_nonfinite += result.num_nonfinite;
      if (reference == nullptr) continue;
      ++sums.num_compared;
      sums.reference_loss.Add(result.reference_loss);
      sums.divergence.Add(result.divergence);
      ++sums.divergence_bins[DivergenceBin(result.divergence)];
      sums.num_agreeing += result.agrees ? 1 : 0;
      sums.comparison.Add(result.comparison);
    }
  }
  return sums;
}

void LanguageSums::Add(const LanguageSums& other) {
  num_tokens += other.num_tokens;
  num_compared += other.num_compared;
  num_agreeing += other.num_agreeing;
  num_nonfinite += other.num_nonfinite;
  loss.Add(other.loss);
  reference_loss.Add(other.reference_loss);
  divergence.Add(other.divergence);
  for (const auto& [bin, count] : other.divergence_bins) divergence_bins[bin] += count;
  comparison.Add(other.comparison);
}

LanguageReport LanguageSums::Report() const {
  BITPRESS_DCHECK(num_tokens > 0);
  const auto count = static_cast<double>(num_tokens);
  LanguageReport report;
  report.num_tokens = num_tokens;
  report.perplexity = std::exp(loss.value() / count);
  if (num_compared == 0) return report;
  report.reference_perplexity = std::exp(reference_loss.value() / count);
  report.mean_divergence = divergence.value() / count;
  const auto rank = static_cast<uint64_t>(std::ceil(0.99 * count));
  uint64_t num_below = 0;
  for (auto bin = divergence_bins.begin(); bin != divergence_bins.end() && num_below < rank;
       ++bin) {
    num_below += bin->second;
    report.divergence_99 = EndOfBin(bin->first);
  }
  report.agreement = static_cast<double>(num_agreeing) / count;
  return report;
}

void LanguageSums::Write(ByteWriter& writer) const {
  for (const uint64_t count : {num_tokens, num_compared, num_agreeing, num_nonfinite}) {
    writer.Compact(count);
  }
  for (const OrderlessSum* const sum : {&loss, &reference_loss, &divergence}) sum->Write(writer);
  writer.Compact(divergence_bins.size());
  for (const auto& [bin, count] : divergence_bins) {
    writer.Compact(bin);
    writer.Compact(count);
  }
  comparison.Write(writer);
}

LanguageSums LanguageSums::Read(ByteReader& reader) {
  LanguageSums sums;
  for (uint64_t* const count :
       {&sums.num_tokens, &sums.num_compared, &sums.num_agreeing, &sums.num_nonfinite}) {
    *count = reader.Compact();
  }
  for (OrderlessSum* const sum : {&sums.loss, &sums.reference_loss, &sums.divergence}) {
    *sum = OrderlessSum::Read(reader);
  }
  uint64_t num_left = sums.num_compared;
  for (size_t left = reader.Count(2); left > 0; --left) {
    const uint64_t bin = reader.Compact();
    const uint64_t count = reader.Compact();
    const bool is_next = sums.divergence_bins.empty() || bin > sums.divergence_bins.rbegin()->first;
    if (!is_next || bin > kLastBin || count == 0 || count > num_left) {
      reader.FailDamaged("its divergences are not in order");
    }
    num_left -= count;
    sums.divergence_bins.emplace(static_cast<uint32_t>(bin), count);
  }
  const bool is_right = num_left == 0 && sums.num_agreeing <= sums.num_compared &&
                        (sums.num_compared == 0 || sums.num_compared == sums.num_tokens) &&
                        sums.num_tokens <= kMostCounted;
  if (!is_right) reader.FailDamaged("its counts of tokens contradict each other");
  sums.comparison = OutputComparison::Read(reader);
  return sums;
}

}  // namespace bitpress::evaluate
