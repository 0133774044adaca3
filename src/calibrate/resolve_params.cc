#include "calibrate/resolve_params.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "calibrate/expected_error.h"
#include "calibrate/range_methods.h"
#include "calibrate/resolve_caches.h"
#include "formats/reference.h"
#include "ops/compute_ops.h"
#include "ops/integer_kernels.h"
#include "plan/pair_safety.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// Returns whether the row's parameters come from the calibration.
bool IsIntegerActivation(const TensorPlan& row) {
  return row.role == plan::Role::kActivation && row.integer.has_value() && !row.is_dynamic();
}

// Returns the rows whose quantizers stand in the model: those of the plan, each behind the row that
// its value goes through first. `through` owns the latter.
std::vector<const TensorPlan*> RowsOf(const plan::QuantPlan& plan,
                                      std::deque<TensorPlan>& through) {
  std::vector<const TensorPlan*> rows;
  for (const TensorPlan& row : plan.tensors) {
    if (row.through_integer) rows.push_back(&through.emplace_back(row.ThroughRow()));
    rows.push_back(&row);
  }
  return rows;
}

bool NeedsFloatScale(const TensorPlan& row) {
  return row.role == plan::Role::kActivation && row.scaled && !row.scaled->scale;
}

}  // namespace

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

std::vector<std::string> ValuesToCalibrate(const plan::QuantPlan& plan) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  std::deque<TensorPlan> through;
  for (const TensorPlan* const row : RowsOf(plan, through)) {
    const bool is_asked =
        (IsIntegerActivation(*row) && !row->integer->params) || NeedsFloatScale(*row);
    if (is_asked && seen.insert(row->value).second) values.push_back(row->value);
  }
  for (const std::string& cache : CachesToCalibrate(plan)) {
    if (seen.insert(cache).second) values.push_back(cache);
  }
  return values;
}

bool NeedsSums(const plan::QuantPlan& plan) {
  // LeaveMixedConcats compares powers, a distribution has a deviation.
  return plan::ResolvePlacement(plan.config) == plan::Placement::kAll ||
         std::ranges::any_of(plan.tensors,
                             [](const TensorPlan& row) { return NeedsFloatScale(row); });
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

std::map<std::string, int64_t> ChannelsOfProducts(const graph::Model& model) {
  std::map<std::string, int64_t> axes;
  for (const graph::Node& node : model.AllNodes()) {
    const bool has_weight = node.num_inputs() > 1 && model.IsInitializer(node.input(1)) &&
                            !model.IsInitializer(node.input(0));
    if (!has_weight) continue;
    const auto dims = model.Initializer(node.input(1)).dims;
    if (!ops::PairSums(node, 1, dims, /*is_dynamic=*/false)) continue;
    if (const auto axis = ops::SummedAxis(node, 0)) axes.emplace(node.input(0), *axis);
  }
  return axes;
}

std::map<std::string, int64_t> ChannelsToCalibrate(const plan::QuantPlan& plan,
                                                   const graph::Model& model) {
  std::map<std::string, int64_t> axes;
  const plan::NodeIndex nodes(model);
  const auto activations = plan::ActivationsOfNodes(plan);
  for (const TensorPlan& row : plan.tensors) {
    if (!row.integer || !row.integer->is_pair_safe) continue;
    for (const plan::TensorUse& use : row.uses) {
      const auto activation = activations.find(use.node);
      if (activation == activations.end() || activation->second->is_dynamic()) continue;
      if (const auto axis = ops::SummedAxis(nodes.Find(use), 0)) {
        axes.emplace(activation->second->value, *axis);
      }
    }
  }
  return axes;
}

plan::ChannelCodesTable ResolveChannels(const plan::QuantPlan& plan, const graph::Model& model,
                                        const CalibrationTable& table,
                                        const plan::ScaleTable& scales) {
  // Channels that the samples hardly used, such as rare bytes of a text, are not free to be wrong.
  constexpr double kLeastShareOfMean = 0.1;
  plan::ChannelCodesTable channels;
  for (const auto& [value, axis] : ChannelsToCalibrate(plan, model)) {
    const auto found = table.tensors.find(value);
    const auto of_uint8 = scales.find({value, "uint8"}), of_int8 = scales.find({value, "int8"});
    const bool is_uint8 = of_uint8 != scales.end(), is_int8 = of_int8 != scales.end();
    if (found == table.tensors.end() || is_uint8 == is_int8) continue;
    const formats::QParams& of = is_uint8 ? of_uint8->second : of_int8->second;
    const auto type = is_uint8 ? formats::ElementType::kUInt8 : formats::ElementType::kInt8;
    const formats::CodeRange range = formats::IntegerRange(type);
    const auto code_of = [&](float x) {
      return static_cast<uint8_t>(formats::ref::QuantizeInteger(x, of.scale, of.zero_point, range) -
                                  range.quant_min);
    };
    const TensorStatistics& statistics = found->second;
    if (statistics.num_finite() != statistics.num_elements()) continue;  // infinity has code 255
    plan::ChannelCodes& codes = channels[value];
    codes.largest = {statistics.is_empty() ? uint8_t{255} : code_of(statistics.max())};
    const auto& slices = statistics.axis_statistics();
    // A value that never had this axis, a single number for example, has no slices.
    if (statistics.is_empty() || !slices || slices->slices.empty() || slices->axis != axis) {
      continue;
    }
    codes.largest.clear();
    codes.num_reads = statistics.num_elements() / slices->slices.size();
    codes.squared_error = ExpectedError(statistics, of, {.element_type = type});
    double sum = 0;
    for (const SliceStatistics& slice : slices->slices) {
      // Padding of a convolution is zero, whatever the channel holds.
      const uint8_t zero = code_of(0);
      codes.largest.push_back(slice.num_finite == 0 ? zero
                                                    : std::max(zero, code_of(slice.extremes.max)));
      codes.mean_squares.push_back(
          slice.num_finite == 0 ? 0 : slice.sum_of_squares.Mean(slice.num_finite));
      codes.means.push_back(slice.num_finite == 0 ? 0 : slice.sum.Mean(slice.num_finite));
      sum += codes.mean_squares.back();
    }
    const double least =
        sum > 0 ? kLeastShareOfMean * sum / static_cast<double>(slices->slices.size()) : 1.0;
    for (double& square : codes.mean_squares) square = std::max(square, least);
  }
  return channels;
}

ResolvedParams ResolveParams(const plan::QuantPlan& plan, const CalibrationTable& table) {
  // A group is the rows of one format whose values share a scale. The row of the value that they
  // share it with says the method, or their first row where that value has another format.
  using plan::ScaleKey;
  const auto group_of = [](const TensorPlan& row) {
    return ScaleKey{plan::ScaleRootOf(row), row.format};
  };
  std::set<std::string> roots;
  std::map<ScaleKey, const TensorPlan*> rows;
  std::map<ScaleKey, TensorStatistics> statistics;
  std::map<ScaleKey, std::string> reasons;
  std::deque<TensorPlan> through;
  const std::vector<const TensorPlan*> all = RowsOf(plan, through);
  for (const TensorPlan* const each : all) {
    const TensorPlan& row = *each;
    if (!IsIntegerActivation(row)) continue;
    const ScaleKey group = group_of(row);
    const auto [says, is_first] = rows.try_emplace(group, &row);
    if (row.integer->shares.empty()) {
      roots.insert(row.value);
      says->second = &row;
    }
    if (row.integer->params) continue;
    const TensorStatistics& own = StatisticsOf(table, row.value);
    // One that had no elements has nothing against the scale of the others.
    TensorStatistics& merged = statistics[group];
    if (own.num_elements() == 0) continue;
    merged.Merge(own);
    if (const std::optional<std::string> why = WhyNoRange(own)) {
      const bool is_own = row.value == group.value;
      reasons.try_emplace(group, is_own ? *why : fmt::format("'{}': {}", row.value, *why));
    }
  }
  for (const auto& [group, merged] : statistics) {
    if (const std::optional<std::string> why = WhyNoRange(merged)) reasons.try_emplace(group, *why);
  }
  std::map<ScaleKey, formats::QParams> of_group;
  for (const auto& [group, row] : rows) {
    if (row->integer->params) {
      of_group[group] = *row->integer->params;
    } else if (!reasons.contains(group)) {
      of_group[group] = ChooseQParams(statistics[group], row->integer->range, row->IntegerSpec());
    }
  }
  ResolvedParams resolved;
  for (const TensorPlan* const each : all) {
    const TensorPlan& row = *each;
    if (!IsIntegerActivation(row)) continue;
    const ScaleKey group = group_of(row);
    if (!roots.contains(group.value)) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' shares the scale of '{}', which the plan does not quantize", row.value,
           group.value);
    }
    if (const auto found = of_group.find(group); found != of_group.end()) {
      resolved.scales[plan::ScaleKeyOf(row)] = found->second;
    } else {
      resolved.left_float.emplace_back(row.value, reasons.at(group));
    }
  }
  return resolved;
}

}  // namespace bitpress::calibrate
