#include "plan/qdq_placement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/integer_operators.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::plan {
namespace {

using graph::Model;
using graph::Node;
using ops::OnIntegers;

class Placer {
 public:
  Placer(const Model& model, const std::function<std::string(const Node&)>& reason,
         const std::function<std::string(const std::string&)>& value_reason)
      : model_(model), reason_(reason), value_reason_(value_reason), nodes_(model.AllNodes()) {}

  // Returns whether all activations that the node reads and gives as integers are among `values`.
  // Operators of other kinds always pass.
  bool CanStayInteger(const Node& node, const std::set<std::string>& values) const {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    const OnIntegers what = On(node);
    if (!traits.is_product() && (what == OnIntegers::kFloats || what == OnIntegers::kJoins)) {
      return true;
    }
    const size_t num_inputs = what == OnIntegers::kFuses ? 0 : traits.num_operands;
    for (size_t i = 0; i < std::min(num_inputs, node.num_inputs()); ++i) {
      const std::string& input = node.input(i);
      if (!model_.IsInitializer(input) && !values.contains(input)) return false;
    }
    if (GivesFloats(node)) return true;
    std::string output = node.output(0);
    while (!values.contains(output)) {
      const std::optional<Node> activation = FusedActivation(output);
      if (!activation) return false;
      output = activation->output(0);
    }
    return true;
  }

  std::vector<QdqValue> Run() {
    for (const Node& node : nodes_) {
      if (IsStart(node)) AddStart(node);
    }
    // Operators that move elements come in graph order, so that chains of them follow.
    for (const Node& node : nodes_) Follow(node);
    // The way back finds those that would move floats which are quantized only behind them.
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) LeadBack(*node);
    return Collect();
  }

 private:
  bool IsQuantizable(const std::string& value) const {
    if (value.empty() || model_.IsInitializer(value)) return false;
    const graph::ValueInfo info = model_.InfoOf(value);
    if (info.type != DataType::kFloat || (info.has_shape && info.shape.empty())) return false;
    const std::optional<Node> producer = model_.Producer(value);
    if (producer && (ops::IsQuantizer(*producer) || producer->op_type() == "Constant"))
      return false;
    return value_reason_(value).empty();
  }

  // Returns whether the node computes on integers that have scales of their own.
  bool IsStart(const Node& node) const {
    return ops::TraitsOf(node).is_product() && reason_(node).empty();
  }

  void AddStart(const Node& node) {
    integer_nodes_.insert(node.output(0));
    for (size_t i = 0; i < std::min<size_t>(2, node.num_inputs()); ++i) {
      if (IsQuantizable(node.input(i))) chosen_.insert(node.input(i));
    }
    AddOutput(node);
  }

  // Chooses the output of a node, but for matrix products. ONNX Runtime's kernels for these give
  // floats from codes at no cost, and readers that compute on integers ask for codes themselves.
  // The other readers in transformers are sums and norms, whose range a few large elements take up.
  void AddOutput(const Node& node) {
    if (GivesFloats(node)) return;
    std::string output = node.output(0);
    while (const std::optional<Node> activation = FusedActivation(output)) {
      output = activation->output(0);
    }
    if (!IsQuantizable(output)) return;
    chosen_.insert(output);
    given_.insert(output);
  }

  static bool GivesFloats(const Node& node) {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    return traits.is_product() && traits.product != ops::Product::kConv;
  }

  // Lets a matrix product give codes if its elements are only moved before they are quantized.
  // Codes are a quarter as wide.
  void LeadBack(const Node& node) {
    if (On(node) != OnIntegers::kMoves || !reason_(node).empty() || node.num_inputs() == 0) return;
    const std::string& input = node.input(0);
    const std::string& output = node.output(0);
    const std::optional<Node> producer = model_.Producer(input);
    const bool is_moved =
        producer && (ops::TraitsOf(*producer).is_product() || On(*producer) == OnIntegers::kMoves);
    if (!is_moved || chosen_.contains(input) || !chosen_.contains(output)) return;
    if (node.num_outputs() > 1 || !model_.OnlyUse(input)) return;
    if (!reason_(*producer).empty() || !IsQuantizable(input)) return;
    chosen_.insert(input);
    given_.insert(input);
    Share(node, output, input);
  }

  // Returns the Relu or Clip that is the only reader of a value.
  std::optional<Node> FusedActivation(const std::string& value) const {
    if (model_.IsOutput(value) || model_.IsUsedInSubgraph(value)) return std::nullopt;
    const std::vector<graph::Use> uses = model_.Uses(value);
    if (uses.size() != 1 || uses.front().input_index != 0) return std::nullopt;
    const Node& reader = uses.front().node;
    const bool is_fused = On(reader) == OnIntegers::kFuses && reason_(reader).empty();
    return is_fused ? std::optional(reader) : std::nullopt;
  }

  void Follow(const Node& node) {
    if (!reason_(node).empty() || node.num_inputs() == 0) return;
    switch (On(node)) {
      case OnIntegers::kComputes:
        // A constant operand is a scale or an offset, which needs more than eight bits.
        if (!AreChosen(node, ops::TraitsOf(node).num_operands)) return;
        integer_nodes_.insert(node.output(0));
        return AddOutput(node);
      case OnIntegers::kMoves:
        if (!chosen_.contains(node.input(0))) return;
        for (size_t i = 0; i < node.num_outputs(); ++i) Share(node, node.output(i), node.input(0));
        return;
      case OnIntegers::kCutsOff:
        if (chosen_.contains(node.input(0))) Share(node, node.output(0), node.input(0));
        return;
      case OnIntegers::kJoins:
        return FollowConcat(node);
      case OnIntegers::kFuses:
      case OnIntegers::kFloats:
        return;
    }
  }

  // Returns what becomes of the node, with its attributes and constants.
  OnIntegers On(const Node& node) const {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    const bool is_so = [&] {
      switch (traits.on_integers) {
        case OnIntegers::kComputes:
          return ops::WhyNoIntegerForm(node).empty();
        case OnIntegers::kMoves:  // a MaxPool may give indices, too
          return ops::MovesElements(node) && !(traits.Is(ops::kSelects) && node.num_outputs() > 1);
        case OnIntegers::kCutsOff:
          return node.num_inputs() == 2 && model_.IsInitializer(node.input(1));
        default:
          return true;
      }
    }();
    return is_so ? traits.on_integers : OnIntegers::kFloats;
  }

  // Returns whether the first inputs are all chosen.
  bool AreChosen(const Node& node, size_t num_inputs) const {
    for (size_t i = 0; i < std::min(num_inputs, node.num_inputs()); ++i) {
      if (!chosen_.contains(node.input(i))) return false;
    }
    return node.num_inputs() > 0;
  }

  // Quantizes all inputs or none, because joined codes need one scale.
  void FollowConcat(const Node& node) {
    if (!AreChosen(node, node.num_inputs())) return;
    for (size_t i = 0; i < node.num_inputs(); ++i) Share(node, node.output(0), node.input(i));
  }

  // Follows a node that moves elements from its input to its output.
  void Share(const Node& node, const std::string& output, const std::string& input) {
    if (!IsQuantizable(output)) return;
    integer_nodes_.insert(node.output(0));
    chosen_.insert(output);
    given_.insert(output);
    root_[Root(output)] = Root(input);
  }

  const std::string& Root(const std::string& value) {
    auto found = root_.try_emplace(value, value).first;
    while (found->second != found->first) found = root_.find(found->second);
    return found->first;
  }

  std::vector<QdqValue> Collect() {
    std::vector<std::string> ordered;
    for (const std::string& input : model_.InputNames()) {
      if (chosen_.contains(input)) ordered.push_back(input);
    }
    for (const graph::BodyValue& value : model_.BodyValues()) {
      if (chosen_.contains(value.name) && model_.IsBodyInput(value.name)) {
        ordered.push_back(value.name);
      }
    }
    for (const Node& node : nodes_) {
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        if (chosen_.contains(node.output(i))) ordered.push_back(node.output(i));
      }
    }
    // The first of a group in graph order stands for it.
    std::map<std::string, std::string> first;
    std::vector<QdqValue> values;
    for (const std::string& name : ordered) {
      const auto [found, is_new] = first.try_emplace(Root(name), name);
      const bool is_output = model_.IsOutput(name) && model_.Producer(name).has_value();
      values.push_back({name, is_new ? "" : found->second, is_output, ReadersOf(name)});
    }
    return values;
  }

  std::vector<graph::Use> ReadersOf(const std::string& value) const {
    std::vector<graph::Use> uses = model_.AllUses(value);
    if (given_.contains(value)) return uses;
    std::erase_if(uses, [&](const graph::Use& use) {
      return use.node.num_outputs() == 0 || !integer_nodes_.contains(use.node.output(0));
    });
    return uses;
  }

  const Model& model_;
  const std::function<std::string(const Node&)>& reason_;
  const std::function<std::string(const std::string&)>& value_reason_;
  std::vector<Node> nodes_;
  std::set<std::string> chosen_;
  std::set<std::string> given_;          // chosen values that an operator on integers gives
  std::set<std::string> integer_nodes_;  // operators on integers, by their first output
  std::map<std::string, std::string> root_;
};

}  // namespace

std::vector<QdqValue> PlaceQdq(const Model& model,
                               const std::function<std::string(const Node&)>& node_reason,
                               const std::function<std::string(const std::string&)>& value_reason) {
  return Placer(model, node_reason, value_reason).Run();
}

NeededQdq NeededValues(const graph::Model& model, std::set<std::string> quantized) {
  NeededQdq needed;
  const std::function<std::string(const Node&)> any_node = [](const Node&) {
    return std::string();
  };
  const std::function<std::string(const std::string&)> value_reason =
      [&](const std::string& value) {
        return std::string(quantized.contains(value) ? "" : "it stays float");
      };
  const Placer whole(model, any_node, value_reason);
  const std::function<std::string(const Node&)> node_reason = [&](const Node& node) {
    return std::string(whole.CanStayInteger(node, quantized) ? "" : "a value of it stays float");
  };
  // A value that is left out may leave its neighbours without a use.
  for (size_t num_before = 0; num_before != quantized.size();) {
    num_before = quantized.size();
    needed.values = Placer(model, node_reason, value_reason).Run();
    std::set<std::string> placed;
    for (const QdqValue& value : needed.values) placed.insert(value.name);
    std::erase_if(quantized, [&](const std::string& value) { return !placed.contains(value); });
  }
  for (const Node& node : model.AllNodes()) {
    if (ops::TraitsOf(node).is_product() && whole.CanStayInteger(node, quantized)) {
      needed.operators.insert(node.output(0));
    }
  }
  return needed;
}

}  // namespace bitpress::plan
