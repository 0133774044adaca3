#include "search/output_meter.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "evaluate/outputs.h"

namespace bitpress::search {
namespace {

std::vector<evaluate::Output> ToOutputs(std::span<const Tensor> tensors) {
  std::vector<evaluate::Output> outputs;
  for (const Tensor& tensor : tensors) outputs.push_back(evaluate::ToOutput(tensor));
  return outputs;
}

}  // namespace

void CountedOutputs::Look(std::span<const Tensor> inputs, std::span<const std::string> names,
                          std::span<const Tensor> outputs) {
  if (!tokens_) return;
  const Tensor& ids = inputs[tokens_->ids_index()];
  if (ids.type != DataType::kInt64 || ids.dims.size() != 2) return;
  const std::optional<size_t> logits = evaluate::LanguageMeter::FindLogits(names, outputs, ids);
  if (!logits || output_index_.value_or(*logits) != *logits) return;
  output_index_ = logits;
  are_logits_ = true;
}

std::vector<Tensor> CountedOutputs::Take(std::vector<Tensor> outputs) const {
  if (!output_index_) return outputs;
  std::vector<Tensor> one;
  one.push_back(std::move(outputs.at(*output_index_)));
  return one;
}

OutputMeter::OutputMeter(const CountedOutputs& counted, size_t num_threads) : counted_(counted) {
  if (counted.are_logits()) language_.emplace(num_threads);
}

void OutputMeter::Add(std::span<const Tensor> inputs, std::span<const Tensor> reference,
                      std::span<const Tensor> outputs, size_t num_samples,
                      std::span<const int64_t> labels) {
  if (language_) {
    language_->Add(counted_.IdsOf(inputs), outputs[0], &reference[0], num_samples);
  } else {
    losses_.Add(ToOutputs(reference), ToOutputs(outputs), num_samples, labels);
  }
}

evaluate::Loss OutputMeter::Result() const {
  if (!language_) return losses_.Result();
  const evaluate::LanguageReport report = language_->sums().Report();
  evaluate::Loss loss;
  loss.noise = *report.mean_divergence;
  loss.l2 = language_->sums().comparison.MeanL2();
  loss.cosine = language_->sums().comparison.Cosine();
  loss.divergence = report.mean_divergence;
  loss.agreement = report.agreement;
  return loss;
}

std::string LossText(double noise, bool is_divergence) {
  return is_divergence ? fmt::format("{:.4f} nats", noise)
                       : fmt::format("{:.2f} dB", evaluate::SqnrDb(noise));
}

}  // namespace bitpress::search
