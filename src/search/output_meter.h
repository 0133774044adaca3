// Measures the loss at the outputs of a model, as searches count it: the divergence of the
// predicted tokens for a language model, else the energy of the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "data/token_inputs.h"
#include "evaluate/language.h"
#include "evaluate/loss.h"

namespace bitpress::search {

// The outputs that a loss is about.
class CountedOutputs {
 public:
  // `output_index`: the only output that counts, or nothing: all. `tokens`: the inputs of a
  // language model, or nothing.
  CountedOutputs(std::optional<size_t> output_index, std::optional<data::TokenInputs> tokens)
      : output_index_(output_index), tokens_(std::move(tokens)) {}

  // Looks at a first run. A language model's logits alone count, if they are among the outputs that
  // count: the caches beside them say nothing that later logits do not.
  void Look(std::span<const Tensor> inputs, std::span<const std::string> names,
            std::span<const Tensor> outputs);
  // Returns whether losses are divergences of predicted tokens. REQUIRES: Look was called.
  bool are_logits() const { return are_logits_; }
  // Returns the outputs that count.
  std::vector<Tensor> Take(std::vector<Tensor> outputs) const;
  // Returns the token ids among the inputs. REQUIRES: are_logits().
  const Tensor& IdsOf(std::span<const Tensor> inputs) const { return inputs[tokens_->ids_index()]; }

 private:
  std::optional<size_t> output_index_;
  std::optional<data::TokenInputs> tokens_;
  bool are_logits_ = false;
};

class OutputMeter {
 public:
  OutputMeter(const CountedOutputs& counted, size_t num_threads);

  // Adds a run. `reference` and `outputs` are what CountedOutputs::Take gives; `labels` has the
  // class of each sample, or is empty. Throws as LossMeter::Add and LanguageMeter::Add.
  void Add(std::span<const Tensor> inputs, std::span<const Tensor> reference,
           std::span<const Tensor> outputs, size_t num_samples, std::span<const int64_t> labels);
  // Returns the loss over all runs. Its `noise` is what counts: the mean divergence of logits.
  evaluate::Loss Result() const;

 private:
  const CountedOutputs& counted_;
  evaluate::LossMeter losses_;
  std::optional<evaluate::LanguageMeter> language_;
};

// Returns a loss for people: "23.10 dB", or "0.0213 nats".
std::string LossText(double noise, bool is_divergence);

}  // namespace bitpress::search
