#include "rewrite/layer_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "ops/following_limits.h"
#include "ops/operator_traits.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// The place from which a vector of one element a channel is read.
enum class VectorPlace {
  kBiasInput,     // the layer's own bias: [channels]
  kBehindResult,  // added to the layer's result, and broadcast to its shape
};

// Returns whether `name` is a constant of one finite float a channel, along the axis of the layer's
// channels.
bool IsChannelVector(const Model& model, const ops::ChannelLayer& layer, const std::string& name,
                     VectorPlace place) {
  if (!model.IsInitializer(name)) return false;
  const graph::InitializerView vector = model.Initializer(name);
  if (vector.type != DataType::kFloat) return false;
  // Behind the channels of an image come its other dimensions.
  const bool is_image = layer.is_convolution && place == VectorPlace::kBehindResult;
  const size_t num_behind = is_image ? layer.rank - 2 : 0;
  const std::span<const int64_t> dims = vector.dims;
  if (dims.size() <= num_behind) return false;
  const size_t axis = dims.size() - 1 - num_behind;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto wanted = static_cast<int64_t>(i == axis ? layer.outputs.num_channels : 1);
    if (dims[i] != wanted) return false;
  }
  return std::ranges::all_of(vector.values<float>(), [](float x) { return std::isfinite(x); });
}

// The way from one layer to the next.
class Walk {
 public:
  Walk(const Model& model, LayerPair& pair) : model_(model), pair_(pair) {}

  // Follows the first layer's result to the second one, which it fills in. Returns why there is
  // none, or "".
  std::string Run() {
    const ops::ChannelLayer& first = pair_.first;
    if (!first.bias.empty()) {
      if (!IsChannelVector(model_, first, first.bias, VectorPlace::kBiasInput)) {
        return "its bias is no constant vector of finite numbers";
      }
      pair_.biases.push_back({first.node, 2});
    }
    for (std::string value = first.node.output(0);;) {
      if (model_.IsOutput(value)) return fmt::format("'{}' is an output of the model", value);
      const std::vector<graph::Use> uses = model_.Uses(value);
      if (uses.size() != 1 || model_.IsUsedInSubgraph(value)) {
        return fmt::format(
            "'{}' has {} readers", value,
            model_.IsUsedInSubgraph(value) ? "a body among its" : std::to_string(uses.size()));
      }
      const graph::Use& use = uses.front();
      std::string reason;
      if (std::optional<ops::ChannelLayer> second = ops::LayerOf(model_, use.node, reason)) {
        return Accept(std::move(*second), use);
      }
      if (reason.empty()) reason = PassThrough(use);
      if (!reason.empty()) return fmt::format("{} behind it: {}", use.node.Describe(), reason);
      value = use.node.output(0);
    }
  }

 private:
  std::string Accept(ops::ChannelLayer second, const graph::Use& use) {
    if (use.input_index != 0) return fmt::format("{} reads it as weight", use.node.Describe());
    if (second.is_convolution != pair_.first.is_convolution) {
      return fmt::format("{} has its channels on another axis", use.node.Describe());
    }
    if (second.inputs.num_channels != pair_.first.outputs.num_channels) {
      return fmt::format("{} has other channels", use.node.Describe());
    }
    pair_.second = std::move(second);
    return "";
  }

  // Returns why nothing can be scaled through this node, or "".
  std::string PassThrough(const graph::Use& use) {
    const Node& node = use.node;
    const std::string& op = node.op_type();
    if (!node.domain().empty()) return "not homogeneous";
    if (op == "Clip") return PassClip(node);
    if (op == "Add") {
      const size_t other = 1 - use.input_index;
      if (!IsChannelVector(model_, pair_.first, node.input(other), VectorPlace::kBehindResult)) {
        return "what it adds is no constant of one number a channel";
      }
      pair_.biases.push_back({node, other});
      return "";
    }
    if (op == "Mul") return PassGate(use);
    if (use.input_index != 0) return "not homogeneous";
    const ops::Homogeneous homogeneous = ops::TraitsOf(node).homogeneous;
    // A PRelu's slopes are multiplied with the elements.
    if (homogeneous == ops::Homogeneous::kElements) return "";
    if (homogeneous == ops::Homogeneous::kChannels && pair_.first.is_convolution) {
      return node.num_outputs() == 1 ? "" : "it gives indices too";
    }
    return "not homogeneous";
  }

  // A product with another value, such as the gate of an MLP, is homogeneous in each of the two.
  std::string PassGate(const graph::Use& use) {
    const std::string& other = use.node.input(1 - use.input_index);
    if (other == use.node.input(use.input_index)) return "not homogeneous";
    if (!pair_.first.is_convolution) return "";  // the channels stay on the last axis
    const graph::ValueInfo value = model_.InfoOf(use.node.input(use.input_index));
    const graph::ValueInfo gate = model_.InfoOf(other);
    // A gate of more dimensions would move the axis of the channels.
    const bool is_wider =
        !value.has_shape || !gate.has_shape || gate.shape.size() > value.shape.size();
    return is_wider ? "what it multiplies with has another or no known number of dimensions" : "";
  }

  std::string PassClip(const Node& node) {
    if (node.HasAttribute("min") || node.HasAttribute("max")) {
      return "its limits are attributes, as before operator set 11";
    }
    const std::optional<ops::Limits> limits = ops::LimitsOf(model_, node);
    if (!limits) return "its limits are no constants";
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (limits->least != 0 && limits->least != -kInfinity) return "its lower limit is not 0";
    if (limits->largest == kInfinity) return "";
    if (!(limits->largest > 0)) return "its upper limit is not positive";
    if (pair_.clip) return "it is the second limit";
    pair_.clip = node;
    pair_.clip_limit = limits->largest;
    return "";
  }

  const Model& model_;
  LayerPair& pair_;
};

}  // namespace

LayerPairs FindLayerPairs(const Model& model) {
  LayerPairs found;
  std::set<std::string> ends;  // the nodes that are a second layer, by their first output
  for (const Node& node : model.Nodes()) {
    std::string reason;
    std::optional<ops::ChannelLayer> first = ops::LayerOf(model, node, reason);
    if (first) {
      LayerPair pair{.first = *first, .second = std::move(*first), .biases = {}, .clip = {}};
      reason = Walk(model, pair).Run();
      if (reason.empty() && !ends.insert(pair.second.node.output(0)).second) {
        reason = fmt::format("another layer is paired with {}", pair.second.node.Describe());
      }
      if (reason.empty()) found.pairs.push_back(std::move(pair));
    }
    if (!reason.empty()) found.left_alone.emplace_back(node.Describe(), reason);
  }
  return found;
}

}  // namespace bitpress::rewrite
