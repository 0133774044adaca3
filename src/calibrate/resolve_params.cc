#include "calibrate/resolve_params.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "calibrate/expected_error.h"
#include "calibrate/range_methods.h"
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
                                        const std::map<std::string, formats::QParams>& params) {
  // Channels that the samples hardly used, such as rare bytes of a text, are not free to be wrong.
  constexpr double kLeastShareOfMean = 0.1;
  constexpr auto kCodes = formats::ElementType::kUInt8;
  plan::ChannelCodesTable channels;
  for (const auto& [value, axis] : ChannelsToCalibrate(plan, model)) {
    const auto quantized = params.find(value);
    const auto found = table.tensors.find(value);
    if (quantized == params.end() || found == table.tensors.end()) continue;
    const formats::QParams& of = quantized->second;
    const auto code_of = [&](float x) {
      return static_cast<uint8_t>(
          formats::ref::QuantizeInteger(x, of.scale, of.zero_point, formats::IntegerRange(kCodes)));
    };
    const TensorStatistics& statistics = found->second;
    if (statistics.num_finite() != statistics.num_elements()) continue;  // infinity has code 255
    plan::ChannelCodes& codes = channels[value];
    codes.largest = {statistics.is_empty() ? uint8_t{255} : code_of(statistics.max())};
    const auto& slices = statistics.axis_statistics();
    if (statistics.is_empty() || !slices || slices->axis != axis) continue;
    codes.largest.clear();
    codes.num_reads = statistics.num_elements() / slices->slices.size();
    codes.squared_error = ExpectedError(statistics, of, {.element_type = kCodes});
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
  // Each group has a first row, which says the method, and the merged statistics of all its rows.
  std::map<std::string, const TensorPlan*> rows;
  std::map<std::string, TensorStatistics> statistics;
  std::map<std::string, std::string> reasons;
  for (const TensorPlan& row : plan.tensors) {
    if (!IsIntegerActivation(row)) continue;
    const std::string& root = row.integer->shares.empty() ? row.value : row.integer->shares;
    if (row.integer->shares.empty()) rows[root] = &row;
    if (row.integer->params) continue;
    const TensorStatistics& own = StatisticsOf(table, row.value);
    // A value that had no elements takes the scale of the others.
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
