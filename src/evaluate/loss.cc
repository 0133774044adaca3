#include "evaluate/loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/output_error.h"

namespace bitpress::evaluate {
namespace {

std::optional<size_t> RankOfLabel(std::span<const double> scores, int64_t label) {
  if (label < 0 || label >= std::ssize(scores)) return std::nullopt;
  return RankOf(scores, static_cast<size_t>(label));
}

}  // namespace

double SqnrDb(double noise) {
  return noise == 0 ? std::numeric_limits<double>::infinity() : -10 * std::log10(noise);
}

void LossMeter::Add(std::span<const Output> reference, std::span<const Output> outputs,
                    size_t num_samples, std::span<const int64_t> labels) {
  BITPRESS_DCHECK(reference.size() == outputs.size());
  bool has_scores = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (reference[i].values.empty() || outputs[i].values.empty()) continue;
    if (reference[i].dims != outputs[i].dims) {
      Fail(ErrorCode::kUnsupported,
           "output {} has the shape [{}], and [{}] with quantized layers: its shape depends on its "
           "values, so that the two cannot be compared",
           i, fmt::join(reference[i].dims, ", "), fmt::join(outputs[i].dims, ", "));
    }
    const bool per_sample = outputs[i].IsPerSample(num_samples);
    const size_t num_rows = per_sample ? num_samples : 1;
    const bool is_score = !has_scores && outputs[i].HasClassScores(num_samples);
    has_scores = has_scores || is_score;
    for (size_t row = 0; row < num_rows; ++row) {
      const auto wanted = reference[i].Row(row, num_rows);
      const auto found = outputs[i].Row(row, num_rows);
      all_.Add(wanted, found);
      if (!is_score) continue;
      const bool is_lost = CompareOutputs(wanted, found).has_lost();
      divergences_.Add(is_lost ? std::numeric_limits<double>::infinity()
                               : Divergence(wanted, found));
      const std::optional<size_t> top = TopClass(found);
      agreements_.Add(top && top == TopClass(wanted) ? std::optional<size_t>(0) : std::nullopt);
      if (row >= labels.size()) continue;
      ranks_.Add(RankOfLabel(found, labels[row]));
      reference_ranks_.Add(RankOfLabel(wanted, labels[row]));
    }
  }
}

Loss LossMeter::Result() const {
  Loss loss;
  loss.noise = all_.NoiseRatio();
  loss.l2 = all_.MeanL2();
  loss.cosine = all_.Cosine();
  if (const uint64_t count = agreements_.num_samples(); count > 0) {
    loss.divergence = divergences_.value() / static_cast<double>(count);
    loss.agreement = agreements_.Top1();
  }
  if (ranks_.num_samples() > 0) {
    loss.top1 = ranks_.Top1();
    loss.reference_top1 = reference_ranks_.Top1();
  }
  return loss;
}

}  // namespace bitpress::evaluate
