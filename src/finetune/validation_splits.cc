#include "finetune/validation_splits.h"

#include <fmt/format.h>

#include <algorithm>

#include "finetune/ridge.h"

namespace bitpress::finetune {

std::vector<ValidationSplit> MakeValidationSplits(const LinearLayer& layer,
                                                  const LayerMoments& moments, double least_ridge,
                                                  bool has_free_bias, TunedLayerReport& report) {
  const Moments& first = moments.learned;
  const Moments& second = moments.held_back;
  const int64_t num_skipped = first.num_skipped + second.num_skipped;
  if (first.num_positions + second.num_positions == 0) {
    report.note = num_skipped > 0 ? "every position held NaN, infinity or numbers above 7e16"
                                  : "it never ran";
    return {};
  }
  if (num_skipped > 0) {
    report.note =
        fmt::format("{} positions with NaN, infinity or numbers above 7e16 left out", num_skipped);
  }
  const bool has_both = first.num_positions > 0 && second.num_positions > 0;
  if (moments.split == Split::kNone && !has_both) {
    report.validated_on = ValidatedOn::kLearned;
    return {{&first, &first, least_ridge, least_ridge}};
  }
  if (!has_both) {
    report.note =
        "it stays as rounded, because one part of the samples has all of its positions and none "
        "is left for validation";
    return {};
  }
  const NoiseRidges ridges = RidgesOf(layer, first, second, has_free_bias);
  const double of_both = std::max(least_ridge, ridges.both);
  std::vector<ValidationSplit> splits{
      {&first, &second, std::max(least_ridge, ridges.first), of_both}};
  report.validated_on = ValidatedOn::kHeldBack;
  if (moments.split == Split::kHalves || moments.split == Split::kPositions) {
    splits.push_back({&second, &first, std::max(least_ridge, ridges.second), of_both});
    report.validated_on =
        moments.split == Split::kHalves ? ValidatedOn::kHalves : ValidatedOn::kPositions;
  }
  return splits;
}

}  // namespace bitpress::finetune
