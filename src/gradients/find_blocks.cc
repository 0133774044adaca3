#include "gradients/find_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "gradients/rule.h"

namespace bitpress::gradients {
namespace {

using graph::Node;

// A value that skips so many layers, as those of a U-Net do, does not hinder a cut.
constexpr size_t kLayersOfLongSkip = 12;

// Operators that belong to the layer before them: a cut lies behind them, not in front.
constexpr std::string_view kFollowers[] = {
    "Relu",      "Clip",     "LeakyRelu", "PRelu",     "Elu",    "Sigmoid", "HardSigmoid",
    "HardSwish", "Tanh",     "Gelu",      "QuickGelu", "Erf",    "Swish",   "Softplus",
    "FastGelu",  "BiasGelu", "Mul",       "Add",       "Div",    "Sub",     "BatchNormalization",
    "Cast",      "Identity", "Dropout",   "MaxPool",   "Flatten"};

// Operators that a norm is, or begins with.
constexpr std::string_view kNorms[] = {"LayerNormalization", "SimplifiedLayerNormalization",
                                       "RMSNormalization", "ReduceMean", "Pow"};

// Returns whether an output of a node is a cache for the next run. Keys and values are not what a
// block is to come close in, but what it makes of them.
bool IsCache(const Node& node, size_t output) {
  return node.op_type() == "GroupQueryAttention" && output > 0;
}

class BlockFinder {
 public:
  BlockFinder(const graph::Model& model, const std::function<bool(const Node&)>& is_layer)
      : model_(model) {
    std::set<std::string> dependent;  // values that depend on a layer
    for (const Node& node : model.Nodes()) {
      const bool has_layer = is_layer(node);
      const std::vector<std::string> read = ReadBy(node);
      const bool depends = std::ranges::any_of(
          read, [&](const std::string& value) { return dependent.contains(value); });
      for (const std::string& value : read) {
        // Embeddings, which depend on no layer, are the shortcut of a decoder's first block. Masks
        // and the tables of rotary positions only follow other values.
        const bool begins_block = has_layer || IsNorm(node);
        if (begins_block && !model.IsInitializer(value)) {
          born_.try_emplace(value, nodes_.size(), num_layers_);
        }
        if (born_.contains(value)) dies_[value] = {nodes_.size(), num_layers_};
      }
      if (!has_layer && !depends) continue;
      num_layers_ += has_layer ? 1 : 0;
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        dependent.insert(node.output(i));
        born_[node.output(i)] = {nodes_.size(), num_layers_};
      }
      nodes_.push_back(node);
      layers_.push_back(has_layer);
    }
  }

  std::vector<Segment> Run() {
    std::vector<Segment> segments;
    bool last_is_idle = false;
    size_t begin = 0;
    for (size_t end = 1; end <= nodes_.size(); ++end) {
      if (end < nodes_.size() && !IsCut(end)) continue;
      Segment part;
      part.part.nodes.assign(nodes_.begin() + static_cast<std::ptrdiff_t>(begin),
                             nodes_.begin() + static_cast<std::ptrdiff_t>(end));
      part.num_layers =
          static_cast<size_t>(std::count(layers_.begin() + static_cast<std::ptrdiff_t>(begin),
                                         layers_.begin() + static_cast<std::ptrdiff_t>(end), true));
      part.reason = WhyNot(part.part.nodes);
      begin = end;
      const bool is_idle = part.num_layers == 0 && HasWeights(part.part.nodes);
      const bool joins = !segments.empty() &&
                         segments.back().reason.empty() == part.reason.empty() &&
                         (!part.reason.empty() ||
                          (last_is_idle == is_idle &&
                           segments.back().num_layers + part.num_layers <= kLayersOfBlock) ||
                          (part.num_layers == 0 && !is_idle));
      if (!joins) {
        segments.push_back(std::move(part));
        last_is_idle = is_idle;
        continue;
      }
      std::ranges::copy(part.part.nodes, std::back_inserter(segments.back().part.nodes));
      segments.back().num_layers += part.num_layers;
    }
    for (Segment& segment : segments) FillValues(segment);
    return segments;
  }

 private:
  struct Place {
    Place() = default;
    Place(size_t of_node, size_t of_layer) : node(of_node), layer(of_layer) {}
    size_t node = 0, layer = 0;
  };

  // Returns what a node reads, in its bodies too.
  std::vector<std::string> ReadBy(const Node& node) const {
    std::vector<std::string> read;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (!node.input(i).empty()) read.push_back(node.input(i));
    }
    if (!node.HasSubgraph()) return read;
    for (const Node& inner : model_.AllNodes()) {
      std::optional<Node> owner = model_.Owner(inner);
      while (owner && *owner != node) owner = model_.Owner(*owner);
      if (!owner) continue;
      for (size_t i = 0; i < inner.num_inputs(); ++i) read.push_back(inner.input(i));
    }
    return read;
  }

  // Returns whether one value crosses in front of a node, and the node begins something.
  bool IsCut(size_t at) const {
    if (std::ranges::count(kFollowers, nodes_[at].op_type()) > 0) return false;
    size_t num_crossing = 0;
    for (const auto& [value, last] : dies_) {
      const Place& first = born_.at(value);
      if (first.node >= at || last.node < at) continue;
      const bool is_long = last.layer - first.layer > kLayersOfLongSkip;
      num_crossing += is_long ? 0 : 1;
    }
    return num_crossing <= 1;
  }

  // Returns whether nodes multiply by constants. If none of them learns, such nodes are no part of
  // a block: they would take most of its time.
  bool HasWeights(const std::vector<Node>& nodes) const {
    return std::ranges::any_of(nodes, [&](const Node& node) {
      const bool multiplies = node.op_type() == "Conv" || node.op_type() == "ConvTranspose" ||
                              node.op_type() == "Gemm" || node.op_type() == "MatMul";
      return multiplies && model_.IsInitializer(node.input(1));
    });
  }

  // Returns why nodes cannot learn together; "" if they can.
  std::string WhyNot(const std::vector<Node>& nodes) const {
    for (const Node& node : nodes) {
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        const DataType type = model_.InfoOf(node.output(i)).type;
        if (type != DataType::kFloat && type != DataType::kUndefined) {
          return fmt::format("{}: it gives {}", node.Describe(), DataTypeName(type));
        }
      }
      const std::string why = WhyNoRule(model_, node);
      if (!why.empty()) return fmt::format("{}: {}", node.Describe(), why);
    }
    return "";
  }

  void FillValues(Segment& segment) const {
    std::set<std::string> computed;
    for (const Node& node : segment.part.nodes) {
      for (const std::string& value : ReadBy(node)) {
        const bool is_outside =
            !computed.contains(value) && !model_.IsInitializer(value) &&
            (born_.contains(value) || model_.IsInput(value) || model_.Producer(value).has_value());
        if (is_outside && std::ranges::count(segment.inputs, value) == 0) {
          segment.inputs.push_back(value);
        }
      }
      for (size_t i = 0; i < node.num_outputs(); ++i) computed.insert(node.output(i));
    }
    // Values that nodes of the body of a node define are no inputs of the segment.
    std::erase_if(segment.inputs,
                  [&](const std::string& value) { return model_.IsBodyInput(value); });
    const size_t end = born_.at(segment.part.nodes.back().output(0)).node;
    for (const Node& node : segment.part.nodes) {
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        const std::string& value = node.output(i);
        const auto last = dies_.find(value);
        const bool is_read = last != dies_.end() && last->second.node > end;
        const bool is_result = !value.empty() && model_.IsOutput(value) && !IsCache(node, i);
        if (is_read || is_result) {
          segment.part.outputs.push_back(value);
        }
      }
    }
  }

  const graph::Model& model_;
  std::vector<Node> nodes_;
  std::vector<bool> layers_;
  size_t num_layers_ = 0;
  // The nodes that give values or, for those that depend on no layer, that read them first, and the
  // nodes that read them last.
  std::map<std::string, Place> born_, dies_;
};

}  // namespace

bool IsNorm(const Node& node) { return std::ranges::count(kNorms, node.op_type()) > 0; }

std::vector<Segment> FindBlocks(const graph::Model& model,
                                const std::function<bool(const Node&)>& is_layer) {
  return BlockFinder(model, is_layer).Run();
}

}  // namespace bitpress::gradients
