#include "ops/following_limits.h"

#include <string_view>
#include <vector>

namespace bitpress::ops {
namespace {

bool IsStandard(const graph::Node& node, std::string_view op_type) {
  return node.domain().empty() && node.op_type() == op_type;
}

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

std::optional<FollowingLimits> LimitsBehind(const graph::Model& model, const std::string& value) {
  const std::optional<graph::Use> use = model.OnlyUse(value);
  if (!use || use->input_index != 0) return std::nullopt;
  FollowingLimits limits{use->node};
  if (IsStandard(limits.node, "Relu")) {
    limits.least = 0;
    return limits;
  }
  if (!IsStandard(limits.node, "Clip")) return std::nullopt;
  const std::optional<float> least = LimitOf(model, limits.node, 1, "min", limits.least);
  const std::optional<float> largest = LimitOf(model, limits.node, 2, "max", limits.largest);
  if (!least || !largest || !(*least <= *largest)) return std::nullopt;
  limits.least = *least;
  limits.largest = *largest;
  return limits;
}

}  // namespace bitpress::ops
