#include "emit/following_limits.h"

#include <vector>

#include "emit/integer_codes.h"

namespace bitpress::emit {
namespace {

// Returns a limit of a Clip; nothing if it is no constant.
std::optional<float> LimitOf(const graph::Model& model, const graph::Node& clip, size_t input,
                             float fallback) {
  if (clip.num_inputs() <= input || clip.input(input).empty()) return fallback;
  const std::string& name = clip.input(input);
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return std::nullopt;
  const graph::InitializerView view = model.Initializer(name);
  if (view.type != DataType::kFloat || view.bytes.size() != sizeof(float)) return std::nullopt;
  return view.values<float>()[0];
}

}  // namespace

std::optional<FollowingLimits> LimitsBehind(const graph::Model& model, const std::string& value) {
  const std::vector<graph::Use> uses = model.AllUses(value);
  if (uses.size() != 1 || model.IsOutput(value) || uses[0].input_index != 0) return std::nullopt;
  FollowingLimits limits{uses[0].node};
  if (IsStandardOp(limits.node, "Relu")) {
    limits.least = 0;
    return limits;
  }
  if (!IsStandardOp(limits.node, "Clip")) return std::nullopt;
  const std::optional<float> least = LimitOf(model, limits.node, 1, limits.least);
  const std::optional<float> largest = LimitOf(model, limits.node, 2, limits.largest);
  if (!least || !largest || !(*least <= *largest)) return std::nullopt;
  limits.least = *least;
  limits.largest = *largest;
  return limits;
}

}  // namespace bitpress::emit
