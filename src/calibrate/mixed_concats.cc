#include "calibrate/mixed_concats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "calibrate/compared_values.h"
#include "calibrate/expected_error.h"
#include "calibrate/leave_float.h"
#include "calibrate/statistics.h"
#include "plan/mixed_values.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// A part that has less than this with the scale of all, and could have kLeastOwnGainDb more with a
// scale of its own, is lost. Where scores lie beside other numbers, more counts as lost: scores are
// compared with a bound, and boxes come and go by small changes.
constexpr double kLostDb = 10, kLostBesideScoresDb = 25;
constexpr double kLeastOwnGainDb = 10;

bool IsCandidate(const TensorPlan& row, const plan::ScaleTable& scales) {
  return row.role == plan::Role::kActivation && row.integer && !row.is_dynamic() &&
         !row.integer->params && scales.contains(plan::ScaleKeyOf(row));
}

// Returns the distance in dB between the values of a distribution and their rounding errors.
// Nothing if there are no values to lose.
std::optional<double> DistanceOf(const TensorStatistics& statistics, const formats::QParams& params,
                                 const TensorPlan& row) {
  if (statistics.is_empty() || !(statistics.SumOfSquares() > 0)) return std::nullopt;
  const double power = statistics.SumOfSquares() / static_cast<double>(statistics.num_finite());
  const double error = ExpectedError(statistics, params, row.IntegerSpec());
  return error > 0 ? 10 * std::log10(power / error) : plan::GuardReport::kNoNoiseDb;
}

}  // namespace

void LeaveMixedConcats(plan::ResolvedPlan& resolved, const graph::Model& model,
                       const CalibrationTable& table) {
  if (plan::ResolvePlacement(resolved.plan.config) != plan::Placement::kAll) return;
  std::map<std::string, const TensorPlan*> rows;
  for (const TensorPlan& row : resolved.plan.tensors) {
    if (IsCandidate(row, resolved.scales)) rows.emplace(row.value, &row);
  }
  const std::set<std::string> with_scores = plan::MixedValues(model);
  std::map<const TensorPlan*, std::string> reasons;
  for (const TensorPlan& row : resolved.plan.tensors) {
    if (!IsCandidate(row, resolved.scales)) continue;
    for (const std::string& part : ConcatenatedValues(model, row.value)) {
      const auto statistics = table.tensors.find(part);
      const auto own = rows.find(part);
      if (statistics == table.tensors.end() || own == rows.end()) continue;
      const auto with_all =
          DistanceOf(statistics->second, resolved.scales.at(plan::ScaleKeyOf(row)), row);
      const auto alone = DistanceOf(
          statistics->second, resolved.scales.at(plan::ScaleKeyOf(*own->second)), *own->second);
      const double lost = with_scores.contains(row.value) ? kLostBesideScoresDb : kLostDb;
      if (!with_all || *with_all >= lost || *alone < *with_all + kLeastOwnGainDb) continue;
      reasons[&row] = fmt::format(
          "one scale for all that it is made of leaves its part '{}' {:.1f} dB", part, *with_all);
      break;
    }
  }
  for (TensorPlan& row : resolved.plan.tensors) {
    const auto found = reasons.find(&row);
    if (found == reasons.end()) continue;
    resolved.scales.erase(plan::ScaleKeyOf(row));
    resolved.left_float.emplace_back(row.value, found->second);
    MakeFloatRow(row, found->second);
  }
}

}  // namespace bitpress::calibrate
