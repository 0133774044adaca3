// Greedy decoding with a language model's cache: after the prompt, each run takes one token and the
// cache that the run before gave. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "data/token_inputs.h"
#include "evaluate/language.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// A model as decoders see it.
struct LanguageModel {
  runtime::Session* session;
  const data::TokenInputs* inputs;
  size_t logits = 0;  // index of the output with the logits
};

class GreedyDecoder {
 public:
  // Returns a decoder, or nothing if the model has no cache, or not an output for each cache, or
  // fixes how many tokens or samples a run has.
  // REQUIRES: what `model` points to outlives the decoder.
  static std::optional<GreedyDecoder> Make(const LanguageModel& model);

  // Takes the tokens of a sequence that follow those taken so far, and returns the likeliest next
  // token. Throws Error as Session::Run, and Error(kInvalidModel) if the logits are no scores.
  int64_t Take(std::span<const int64_t> tokens);

  double last_run_ms() const { return last_run_ms_; }

 private:
  explicit GreedyDecoder(const LanguageModel& model) : model_(model) {}

  LanguageModel model_;
  std::vector<std::optional<size_t>> cache_outputs_;  // for each input that is a cache, its output
  std::vector<Tensor> caches_;                        // outputs of the last run; empty before it
  int64_t num_taken_ = 0;
  double last_run_ms_ = 0;
};

// Measures how fast the model, and the reference if there is one, continue `prompt` by `num_tokens`
// tokens. The prompt's run is not counted. The models take turns, so that both find the machine in
// the same state. Returns nothing if the model has no cache. Throws Error as GreedyDecoder::Take.
// REQUIRES: there is a token in the prompt, and num_tokens > 0.
std::optional<DecodingReport> MeasureDecoding(const LanguageModel& model,
                                              const std::optional<LanguageModel>& reference,
                                              const std::vector<int64_t>& prompt,
                                              size_t num_tokens);

}  // namespace bitpress::evaluate
