// Measures a language model on token ids: how well it predicts the next token, and how far its
// predictions are from the reference's.
//
// The logits of a token are a row of scores over the vocabulary. Each row but the last of a sample
// is compared with the token that follows. Rows are measured in parallel, and their sums are exact
// (metrics.h). Memory holds a few rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "base/thread_pool.h"
#include "evaluate/metrics.h"

namespace bitpress::evaluate {

// The speed of greedy decoding, one token after another with the cache of those before.
struct DecodingReport {
  size_t prompt_length = 0;
  size_t num_tokens = 0;
  double tokens_per_s = 0;
  std::optional<double> reference_tokens_per_s;
  std::optional<size_t> num_same;
};
constexpr auto FieldsOf(const DecodingReport*) {
  return std::tuple(
      Field{"prompt_length", &DecodingReport::prompt_length},
      Field{"num_tokens", &DecodingReport::num_tokens, "Decoded tokens of each model."},
      Field{"tokens_per_s", &DecodingReport::tokens_per_s},
      Field{"reference_tokens_per_s", &DecodingReport::reference_tokens_per_s},
      Field{"num_same", &DecodingReport::num_same,
            "Tokens from the first on that both models decode alike. None without a reference."});
}

struct LanguageReport {
  uint64_t num_tokens = 0;
  double perplexity = 0;
  std::optional<double> reference_perplexity;
  std::optional<double> mean_divergence, divergence_99;
  std::optional<double> agreement;
  double prompt_tokens_per_s = 0;  // 0: not measured
  std::optional<double> reference_prompt_tokens_per_s;
  std::optional<DecodingReport> decoding;
};
constexpr auto FieldsOf(const LanguageReport*) {
  return std::tuple(
      Field{"num_tokens", &LanguageReport::num_tokens, "Predicted tokens."},
      Field{"perplexity", &LanguageReport::perplexity,
            "exp of the mean of -log p(next token), in nats."},
      Field{"reference_perplexity", &LanguageReport::reference_perplexity},
      Field{"mean_divergence", &LanguageReport::mean_divergence,
            "Kullback-Leibler divergence from the reference's prediction, in nats: the mean over "
            "all tokens. None without a reference."},
      Field{"divergence_99", &LanguageReport::divergence_99,
            "What the divergence stays below for 99 % of the tokens, rounded up by less than a "
            "part in 4096."},
      Field{"agreement", &LanguageReport::agreement,
            "Share of the tokens for which both find the same next token likeliest, 0 to 1."},
      ComputedField{"prompt_tokens_per_s",
                    [](const LanguageReport& report) {
                      return report.prompt_tokens_per_s > 0
                                 ? std::optional(report.prompt_tokens_per_s)
                                 : std::nullopt;
                    },
                    "Of whole samples, without a cache. None if times were not measured."},
      Field{"reference_prompt_tokens_per_s", &LanguageReport::reference_prompt_tokens_per_s},
      Field{"decoding", &LanguageReport::decoding, "None if the model has no cache."});
}

// Most samples and tokens of one evaluation. Sums of more are refused, so that no count overflows.
inline constexpr uint64_t kMostCounted = uint64_t{1} << 62;

// It holds what was counted of some tokens. The sums of two sets of tokens add up exactly.
struct LanguageSums {
  uint64_t num_tokens = 0;
  uint64_t num_compared = 0;  // tokens with a reference: all or none
  uint64_t num_agreeing = 0;
  uint64_t num_nonfinite = 0;         // logits that are NaN or infinite
  OrderlessSum loss, reference_loss;  // of -log p(next token)
  OrderlessSum divergence;
  // The number of tokens by the highest bits of their divergence as a float: DivergenceBin.
  std::map<uint32_t, uint64_t> divergence_bins;
  OutputComparison comparison;  // of the logits; a sample is a token

  void Add(const LanguageSums& other);
  // Returns the results but for times. REQUIRES: num_tokens > 0.
  LanguageReport Report() const;
  void Write(ByteWriter& writer) const;
  static LanguageSums Read(ByteReader& reader);
  bool operator==(const LanguageSums&) const = default;
};

class LanguageMeter {
 public:
  explicit LanguageMeter(size_t num_threads) : pool_(num_threads) {}

  // Returns the index of the output with the logits: floats of the shape [N, S, vocabulary] with a
  // vocabulary that has all ids. If there are several, it is the one called "logits". Null if there
  // is none, if it is not clear which one, or if samples have one token, so that none is predicted.
  // REQUIRES: `ids` is INT64 [N, S], and there are as many names as outputs.
  static std::optional<size_t> FindLogits(std::span<const std::string> names,
                                          std::span<const Tensor> outputs, const Tensor& ids);

  // Measures the first `num_samples` samples of a batch. `reference` may be null. Throws
  // Error(kInvalidArgument) if an id is not in the vocabulary, or the shapes differ.
  // REQUIRES: `ids` is INT64 [N, S].
  LanguageSums Measure(const Tensor& ids, const Tensor& logits, const Tensor* reference,
                       size_t num_samples);
  // Adds what Measure returns to the sums. If it throws, nothing is added.
  void Add(const Tensor& ids, const Tensor& logits, const Tensor* reference, size_t num_samples) {
    sums_.Add(Measure(ids, logits, reference, num_samples));
  }

  const LanguageSums& sums() const { return sums_; }

 private:
  ThreadPool pool_;
  LanguageSums sums_;
};

}  // namespace bitpress::evaluate
