#include "calibrate/held_back.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "calibrate/expected_error.h"
#include "calibrate/resolve_params.h"

namespace bitpress::calibrate {
namespace {

// Returns the share of the finite elements that lie more than half a step outside the codes.
double OutsideShare(const TensorStatistics& statistics, const formats::QParams& params,
                    const formats::CodeRange& codes) {
  const double scale = params.scale;
  const auto zero_point = static_cast<double>(params.zero_point);
  const double least = (static_cast<double>(codes.quant_min) - zero_point - 0.5) * scale;
  const double most = (static_cast<double>(codes.quant_max) - zero_point + 0.5) * scale;
  uint64_t num_outside = 0;
  for (const Bin& bin : statistics.Bins()) {
    if (bin.center() < least || bin.center() > most) num_outside += bin.count;
  }
  return static_cast<double>(num_outside) / static_cast<double>(statistics.num_finite());
}

}  // namespace

HeldBackReport CompareHeldBack(const plan::QuantPlan& plan, const CalibrationTable& all,
                               const HeldBackTables& parts) {
  HeldBackReport report{parts.held_back.num_samples, all.num_samples};
  const plan::ScaleTable of_others = ResolveParams(plan, parts.others).scales;
  const plan::ScaleTable of_all = ResolveParams(plan, all).scales;
  for (const auto& [key, params] : of_others) {
    const auto wanted = of_all.find(key);
    const auto held_back = parts.held_back.tensors.find(key.value);
    if (wanted == of_all.end() || held_back == parts.held_back.tensors.end()) continue;
    const TensorStatistics& statistics = held_back->second;
    if (statistics.is_empty()) continue;
    ++report.num_values;
    if (params == wanted->second) continue;
    const formats::CodeRange codes =
        formats::IntegerRange(formats::FindFormat(key.format).element_type);
    const ErrorEstimator estimator(statistics);
    const double error = estimator.MeanSquared(params, codes);
    const double least = estimator.MeanSquared(wanted->second, codes);
    if (!(error > least) || !(least > 0)) continue;
    const Unrepresented found{key.value, OutsideShare(statistics, params, codes),
                              10 * std::log10(error / least)};
    if (found.lost_db > kLeastLostDb) report.values.push_back(found);
  }
  std::ranges::stable_sort(report.values, std::ranges::greater(), &Unrepresented::lost_db);
  return report;
}

}  // namespace bitpress::calibrate
