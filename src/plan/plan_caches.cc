#include "plan/plan_caches.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ops/kv_caches.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using graph::Model;
using ops::KvCache;

bool IsCacheFormat(std::string_view name) { return name == "int8" || name == "int4"; }

// Returns why an operator cannot hold this cache as integers, or "".
std::string WhyNoIntegers(const Model& model, const KvCache& cache, const FormatSpec& spec) {
  const std::string& op = cache.node.op_type();
  if (!cache.takes_integers) {
    return fmt::format(
        "{} takes caches of floats only; a format of blocks, such as mxint8, rounds what enters it",
        op);
  }
  const graph::ValueInfo past = model.InfoOf(cache.past_value());
  if (past.type != DataType::kFloat) {
    return fmt::format("its type is {}; ONNX Runtime's CPU takes integers beside FLOAT only",
                       DataTypeName(past.type));
  }
  if (past.shape.size() != 4) {
    return "its shape is not that of [samples, heads, positions, channels]";
  }
  if (spec.element_bits == 4 && past.shape[3].value % 2 != 0) {
    return "codes of 4 bits need an even number of channels that the model states";
  }
  const bool has_other_readers = model.AllUses(cache.past_value()).size() != 1 ||
                                 !model.AllUses(cache.present_value()).empty();
  return has_other_readers ? "other nodes read it as floats" : "";
}

// Returns the row of a cache that stays float for a reason.
CachePlan FloatCache(const KvCache& cache, const NodeIndex& nodes, std::string reason) {
  return {.node = nodes.KeyOf(cache.node),
          .op_type = cache.node.op_type(),
          .past = cache.past_value(),
          .value = cache.present_value(),
          .reason = std::move(reason)};
}

CachePlan IntegerCache(const Model& model, const KvCache& cache, const FormatSpec& spec,
                       const Treatment& treatment, const NodeIndex& nodes) {
  CachePlan row = FloatCache(cache, nodes, treatment.excluded);
  row.granularity = treatment.config.kv_cache_granularity;
  row.range = treatment.config.kv_cache_range;
  if (row.reason.empty()) row.reason = WhyNoIntegers(model, cache, spec);
  if (row.reason.empty()) row.format = spec.name;
  return row;
}

// Returns the reason why the new positions cannot be quantized where they enter the cache, or "".
std::string WhyNotAppended(const Model& model, const KvCache& cache, const FormatSpec& spec,
                           const Treatment& treatment) {
  if (!treatment.excluded.empty()) return treatment.excluded;
  if (!cache.appended) {
    return fmt::format(
        "{} changes the keys before it stores them; int8 and int4 are the formats of its caches",
        cache.node.op_type());
  }
  const DataType type = model.InfoOf(cache.node.input(*cache.appended)).type;
  const bool is_half =
      type == DataType::kFloat16 && HasHalfOperator(treatment.config.operators, spec);
  if (type != DataType::kFloat && type != DataType::kUndefined && !is_half) {
    return fmt::format("its type is {}, which {} does not take", DataTypeName(type), spec.name);
  }
  return "";
}

}  // namespace

PlannedCaches PlanCaches(const QuantConfig& config, const Model& model, const NodeRules& rules,
                         const RowMaker& rows, const NodeIndex& nodes) {
  PlannedCaches planned;
  const std::vector<KvCache> caches = ops::FindKvCaches(model);
  if (caches.empty() && config.kv_cache != "none") {
    Fail(ErrorCode::kInvalidArgument,
         "kv_cache={}: the model has no key-value cache, that is no input behind which attention "
         "puts new positions and that it gives back as an output",
         config.kv_cache);
  }
  for (const KvCache& cache : caches) {
    const Treatment& treatment = rules.ForCache(cache.node);
    if (treatment.config.kv_cache == "none") continue;
    FormatSpec spec = formats::FindFormat(treatment.config.kv_cache);
    if (spec.is_integer()) {
      if (!IsCacheFormat(spec.name)) {
        Fail(ErrorCode::kInvalidArgument, "kv_cache={}: the integers of caches are int8 and int4",
             spec.name);
      }
      planned.caches.push_back(IntegerCache(model, cache, spec, treatment, nodes));
      continue;
    }
    CheckHasOperator(treatment.config.operators, spec);
    std::string reason = WhyNotAppended(model, cache, spec, treatment);
    if (!reason.empty()) {
      planned.caches.push_back(FloatCache(cache, nodes, std::move(reason)));
      continue;
    }
    if (spec.is_blocked()) {
      spec.scale_choice =
          treatment.config.activation_scale.value_or(DefaultScaleChoice(spec, Role::kActivation));
    }
    spec.rounding = treatment.config.activation_rounding;
    const std::string& value = cache.node.input(*cache.appended);
    const int64_t rank = rows.RankOf(value);
    TensorPlan row =
        RowMaker::Quantized(value, Role::kActivation, spec, treatment,
                            rank >= 0 ? cache.channel_axis + rank : cache.channel_axis);
    planned.appended.emplace(std::pair(nodes.KeyOf(cache.node), *cache.appended), std::move(row));
  }
  // An attention holds keys and values alike.
  for (size_t i = 1; i < planned.caches.size(); ++i) {
    CachePlan& keys = planned.caches[i - 1];
    CachePlan& values = planned.caches[i];
    if (keys.node != values.node || keys.is_quantized() == values.is_quantized()) continue;
    CachePlan& quantized = keys.is_quantized() ? keys : values;
    quantized.reason = keys.is_quantized() ? values.reason : keys.reason;
    quantized.format = "none";
  }
  return planned;
}

void CheckCachesFit(const QuantPlan& plan, const NodeIndex& nodes, const Model& model) {
  if (plan.caches.empty()) return;
  const std::vector<KvCache> known = ops::FindKvCaches(model);
  for (size_t i = 0; i < plan.caches.size(); ++i) {
    const CachePlan& cache = plan.caches[i];
    WithContext(fmt::format("plan, caches[{}] ('{}')", i, cache.value), [&] {
      const graph::Node node = nodes.Find({cache.node, cache.op_type, 0});
      const auto found = std::ranges::find_if(known, [&](const KvCache& other) {
        return other.node == node && other.present_value() == cache.value &&
               other.past_value() == cache.past;
      });
      if (found == known.end()) {
        Fail(ErrorCode::kInvalidArgument,
             "{} has no cache with the input '{}' and the output '{}' of the model",
             node.Describe(), cache.past, cache.value);
      }
      if (!cache.is_quantized()) return;
      if (!IsCacheFormat(cache.format)) {
        Fail(ErrorCode::kInvalidArgument, "format {} is none of a cache: int8 or int4",
             cache.format);
      }
      if (!found->takes_integers || model.InfoOf(cache.past).shape.size() != 4) {
        Fail(ErrorCode::kInvalidArgument, "{} takes caches of floats only", node.Describe());
      }
      const bool has_partner = std::ranges::any_of(plan.caches, [&](const CachePlan& other) {
        return &other != &cache && other.node == cache.node && other.format == cache.format &&
               other.granularity == cache.granularity;
      });
      if (!has_partner) {
        Fail(ErrorCode::kInvalidArgument,
             "keys and values of {} have one format and one granularity, or both stay float",
             node.Describe());
      }
      for (const float scale : cache.scales) {
        if (std::isnormal(scale) && scale > 0) continue;
        Fail(ErrorCode::kInvalidArgument, "scale {} is not positive and finite", scale);
      }
    });
  }
}

}  // namespace bitpress::plan
