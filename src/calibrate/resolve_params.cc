#include "calibrate/resolve_params.h"

#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "calibrate/range_methods.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// Its parameters come from the calibration.
bool IsIntegerActivation(const TensorPlan& row) {
  return row.role == plan::Role::kActivation && row.integer.has_value() && !row.is_dynamic();
}

bool NeedsFloatScale(const TensorPlan& row) {
  return row.role == plan::Role::kActivation && row.scaled && !row.scaled->scale;
}

const TensorStatistics& StatisticsOf(const CalibrationTable& table, const std::string& value) {
  const auto found = table.tensors.find(value);
  if (found == table.tensors.end()) {
    Fail(ErrorCode::kInvalidArgument,
         "the calibration has no statistics of '{}'; calibrate with the same configuration, or "
         "without any, and the same preparation of the model",
         value);
  }
  return found->second;
}

}  // namespace

std::vector<std::string> ValuesToCalibrate(const plan::QuantPlan& plan) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const TensorPlan& row : plan.tensors) {
    const bool is_asked =
        (IsIntegerActivation(row) && !row.integer->params) || NeedsFloatScale(row);
    if (is_asked && seen.insert(row.value).second) values.push_back(row.value);
  }
  return values;
}

std::vector<std::pair<std::string, std::string>> ResolveFloatScales(plan::QuantPlan& plan,
                                                                    const CalibrationTable& table) {
  std::vector<std::pair<std::string, std::string>> left_float;
  for (TensorPlan& row : plan.tensors) {
    if (!NeedsFloatScale(row)) continue;
    const TensorStatistics& statistics = StatisticsOf(table, row.value);
    if (const std::optional<std::string> why = WhyNoRange(statistics)) {
      left_float.emplace_back(row.value, *why);
      const TensorPlan before = std::exchange(row, TensorPlan());
      row.value = before.value;
      row.role = before.role;
      row.uses = before.uses;
      row.is_graph_output = before.is_graph_output;
      row.reason = *why;
      continue;
    }
    row.scaled->scale = ChooseFloatScale(statistics, row.scaled->range, row.Spec());
  }
  return left_float;
}

ResolvedParams ResolveParams(const plan::QuantPlan& plan, const CalibrationTable& table) {
  // Of each group its first row, which says the method, and everybody's statistics.
  std::map<std::string, const TensorPlan*> rows;
  std::map<std::string, TensorStatistics> statistics;
  std::map<std::string, std::string> reasons;
  for (const TensorPlan& row : plan.tensors) {
    if (!IsIntegerActivation(row)) continue;
    const std::string& root = row.integer->shares.empty() ? row.value : row.integer->shares;
    if (row.integer->shares.empty()) rows[root] = &row;
    if (row.integer->params) continue;
    const TensorStatistics& own = StatisticsOf(table, row.value);
    // One that had no elements has nothing against the scale of the others.
    TensorStatistics& merged = statistics[root];
    if (own.num_elements() == 0) continue;
    merged.Merge(own);
    if (const std::optional<std::string> why = WhyNoRange(own)) {
      reasons.try_emplace(root,
                          row.value == root ? *why : fmt::format("'{}': {}", row.value, *why));
    }
  }
  for (const auto& [root, merged] : statistics) {
    if (const std::optional<std::string> why = WhyNoRange(merged)) reasons.try_emplace(root, *why);
  }
  ResolvedParams resolved;
  std::map<std::string, formats::QParams> of_root;
  for (const auto& [root, row] : rows) {
    if (row->integer->params) {
      of_root[root] = *row->integer->params;
    } else if (!reasons.contains(root)) {
      of_root[root] = ChooseQParams(statistics[root], row->integer->range, row->IntegerSpec());
    }
  }
  for (const TensorPlan& row : plan.tensors) {
    if (!IsIntegerActivation(row)) continue;
    const std::string& root = row.integer->shares.empty() ? row.value : row.integer->shares;
    if (const auto found = of_root.find(root); found != of_root.end()) {
      resolved.params[row.value] = found->second;
    } else if (const auto reason = reasons.find(root); reason != reasons.end()) {
      resolved.left_float.emplace_back(row.value, reason->second);
    } else {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' shares the scale of '{}', which the plan does not quantize", row.value, root);
    }
  }
  return resolved;
}

}  // namespace bitpress::calibrate
