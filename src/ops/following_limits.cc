#include "ops/following_limits.h"

#include <string_view>

namespace bitpress::ops {
namespace {

// Returns a limit of a Clip; nothing if it is no constant. Before opset 11 it is an attribute.
std::optional<float> LimitOf(const graph::Model& model, const graph::Node& clip, size_t input,
                             std::string_view attribute, float fallback) {
  if (clip.HasAttribute(attribute)) return clip.GetFloat(attribute, fallback);
  if (clip.num_inputs() <= input || clip.input(input).empty()) return fallback;
  const std::string& name = clip.input(input);
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return std::nullopt;
  const graph::InitializerView view = model.Initializer(name);
  if (view.type != DataType::kFloat || view.bytes.size() != sizeof(float)) return std::nullopt;
  return view.values<float>()[0];
}

}  // namespace

std::optional<Limits> LimitsOf(const graph::Model& model, const graph::Node& node) {
  if (!node.domain().empty()) return std::nullopt;
  Limits limits;
  if (node.op_type() == "Relu") {
    limits.least = 0;
    return limits;
  }
  if (node.op_type() != "Clip") return std::nullopt;
  const std::optional<float> least = LimitOf(model, node, 1, "min", limits.least);
  const std::optional<float> largest = LimitOf(model, node, 2, "max", limits.largest);
  if (!least || !largest || !(*least <= *largest)) return std::nullopt;
  return Limits{*least, *largest};
}

std::optional<FollowingLimits> LimitsBehind(const graph::Model& model, const std::string& value) {
  const std::optional<graph::Use> use = model.OnlyUse(value);
  if (!use || use->input_index != 0) return std::nullopt;
  const std::optional<Limits> limits = LimitsOf(model, use->node);
  if (!limits) return std::nullopt;
  return FollowingLimits{*limits, use->node};
}

}  // namespace bitpress::ops
