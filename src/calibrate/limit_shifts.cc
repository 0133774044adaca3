#include "calibrate/limit_shifts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "weights/integer_weight.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// A change may break the rule of another node, which the next round repairs.
constexpr int kMostRounds = 5;

bool HasPowersOfTwo(const TensorPlan& row) {
  return row.integer && row.integer->granularity == plan::Granularity::kPerTensor &&
         row.integer->scale_kind == formats::ScaleKind::kPowerOfTwo && !row.has_scale_of_products();
}

// Returns the scale that a constant gets when it is written.
std::optional<formats::QParams> ConstantParams(const TensorPlan& row, const graph::Model& model,
                                               const plan::ResolvedPlan& resolved,
                                               ThreadPool& pool) {
  const auto given = resolved.weight_scales.find(plan::ScaleKeyOf(row));
  if (given != resolved.weight_scales.end()) return given->second.front();
  if (!model.IsInitializer(row.value) || row.uses.empty()) return std::nullopt;
  return weights::IntegerWeight(model.HoldInitializer(row.value), row, row.uses.front().node)
      .Params(pool)
      .front();
}

// Returns the plan with the scales of its rows, as far as they are powers of two. Activations that
// are left float are float.
plan::QuantPlan KnownScales(const plan::ResolvedPlan& resolved, const graph::Model& model,
                            ThreadPool& pool) {
  plan::QuantPlan known = resolved.plan;
  for (TensorPlan& row : known.tensors) {
    if (!HasPowersOfTwo(row) || row.integer->params || row.is_dynamic()) continue;
    if (row.role != plan::Role::kActivation) {
      row.integer->params = ConstantParams(row, model, resolved, pool);
      continue;
    }
    const auto found = resolved.scales.find(plan::ScaleKeyOf(row));
    if (found == resolved.scales.end()) {
      row.format = "none";
      row.integer.reset();
    } else {
      row.integer->params = found->second;
    }
  }
  return known;
}

struct ChangedScale {
  formats::QParams first;  // before all changes
  std::string says = {};   // the last rule that changed it
};

// Returns whether two rows have one scale.
bool ShareScale(const TensorPlan& row, const TensorPlan& other) {
  return row.role == other.role && row.integer && row.format == other.format &&
         plan::ScaleRootOf(row) == plan::ScaleRootOf(other);
}

}  // namespace

std::vector<std::string> LimitShifts(const plan::TargetProfile& profile, const graph::Model& model,
                                     plan::ResolvedPlan& resolved, ThreadPool& pool) {
  const bool has_any = std::ranges::any_of(resolved.plan.tensors, HasPowersOfTwo);
  if (!has_any || !plan::HasRulesOfShifts(profile)) return {};
  plan::QuantPlan known = KnownScales(resolved, model, pool);
  std::map<size_t, ChangedScale> changed;  // by rows
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<plan::ScaleChange> changes = plan::ScalesToChange(profile, known, model);
    bool is_changed = false;
    std::set<const TensorPlan*> done;  // one change of a scale in a round
    for (const plan::ScaleChange& change : changes) {
      if (done.contains(change.row)) continue;
      for (size_t i = 0; i < known.tensors.size(); ++i) {
        TensorPlan& row = known.tensors[i];
        const bool is_given =
            resolved.plan.tensors[i].integer && resolved.plan.tensors[i].integer->params;
        if (is_given || !row.integer || !row.integer->params || !ShareScale(row, *change.row))
          continue;
        const float scale = std::ldexp(row.integer->params->scale, change.bits);
        if (!std::isnormal(scale)) continue;  // a dead layer
        changed.try_emplace(i, *row.integer->params).first->second.says = change.says;
        row.integer->params->scale = scale;
        done.insert(&row);
        is_changed = true;
      }
    }
    if (!is_changed) break;
  }
  std::vector<std::string> texts;
  for (const auto& [i, scale] : changed) {
    const TensorPlan& row = known.tensors[i];
    const formats::QParams& params = *row.integer->params;
    if (params == scale.first) continue;
    if (row.role == plan::Role::kActivation) {
      resolved.scales[plan::ScaleKeyOf(row)] = params;
    } else {
      resolved.weight_scales[plan::ScaleKeyOf(row)] = {params};
    }
    texts.push_back(fmt::format("the scale of {} '{}' is 2^{}, because it {}",
                                plan::RoleName(row.role), row.value, std::ilogb(params.scale),
                                scale.says));
  }
  return texts;
}

}  // namespace bitpress::calibrate
