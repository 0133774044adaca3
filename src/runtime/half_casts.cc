#include "runtime/half_casts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "runtime/observers.h"

namespace bitpress::runtime {
namespace {

// The beginning of the names of the Casts that ONNX Runtime inserts, and of the values in FLOAT.
constexpr std::string_view kInserted = "InsertedPrecisionFreeCast_";

// The attribute of the nodes of ProtectHalfCasts: their place at the Cast.
constexpr int64_t kBefore = 0;
constexpr int64_t kBehind = 1;
// The attribute of the first node of ProtectHalfFunctions. That of others says by how much later
// the node stands in the given model.
constexpr int64_t kFunction = 2;

// The operators of one computed input that ONNX defines by functions.
constexpr std::string_view kFunctions[] = {
    "Celu",  "Clip", "Elu",  "Gelu",     "HardSigmoid", "HardSwish", "LeakyRelu",      "Mish",
    "PRelu", "Relu", "Selu", "Softplus", "Softsign",    "Swish",     "ThresholdedRelu"};

bool IsCast(const graph::Node& node) { return node.domain().empty() && node.op_type() == "Cast"; }

// Returns the outputs of nodes that depend on an input of the model or of a body. ONNX Runtime
// folds the others.
std::set<std::string> ComputedValues(const graph::Model& model) {
  std::set<std::string> computed;
  for (const graph::Node& node : model.AllNodes()) {
    bool is_computed =
        node.HasSubgraph() || (node.num_inputs() == 0 && node.op_type() != "Constant");
    for (size_t i = 0; i < node.num_inputs() && !is_computed; ++i) {
      const std::string& input = node.input(i);
      is_computed = model.IsInput(input) || model.IsBodyInput(input) || computed.contains(input);
    }
    for (size_t i = 0; i < node.num_outputs() && is_computed; ++i) computed.insert(node.output(i));
  }
  return computed;
}

// Returns the Casts of computed values.
std::vector<graph::Node> ComputedCasts(const graph::Model& model) {
  std::vector<graph::Node> casts;
  const std::set<std::string> computed = ComputedValues(model);
  for (const graph::Node& node : model.AllNodes()) {
    if (IsCast(node) && computed.contains(node.output(0))) casts.push_back(node);
  }
  return casts;
}

// Returns the uses in bodies of values of the graphs around them. A Cast that ONNX Runtime inserts
// there can have the name of one that it inserts outside, which makes the model invalid. A constant
// that all readers of one body share has none outside, and stays visible.
std::vector<graph::Use> OuterUses(const graph::Model& model) {
  std::vector<graph::Use> found;
  std::set<std::string> seen;
  for (const graph::Node& node : model.AllNodes()) {
    if (!model.Owner(node)) continue;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      if (value.empty() || !seen.insert(value).second) continue;
      const std::vector<graph::Use> all = model.AllUses(value);
      if (model.IsInitializer(value) && std::ranges::all_of(all, [&](const graph::Use& use) {
            return model.AreInOneGraph(use.node, node);
          })) {
        continue;
      }
      const std::vector<graph::Use> inside = model.Uses(value);
      std::ranges::copy_if(all, std::back_inserter(found), [&](const graph::Use& use) {
        return std::ranges::none_of(inside, [&](const graph::Use& other) {
          return other.node == use.node && other.input_index == use.input_index;
        });
      });
    }
  }
  return found;
}

// The types and shapes of values, as far as they can be inferred. The model itself gets no other
// descriptions.
class Types {
 public:
  explicit Types(const graph::Model& model) : inferred_(model.Clone()) {
    inferred_.InferShapes();
    for (const graph::BodyValue& value : inferred_.BodyValues()) {
      body_values_.emplace(value.name, value.info);
    }
  }

  graph::ValueInfo Of(const std::string& value) const {
    const auto in_body = body_values_.find(value);
    return in_body != body_values_.end() ? in_body->second : inferred_.InfoOf(value);
  }

 private:
  graph::Model inferred_;
  std::map<std::string, graph::ValueInfo> body_values_;
};

graph::NodeSpec Hold(const std::string& input, const std::string& output, int64_t place) {
  return {output + "_hold", kObservePass, kObserverDomain, {input}, {output}, {{"id", place}}};
}

// Describes a value of the main graph. ONNX Runtime knows no shape behind an operator of ours, but
// some of its rewrites need it.
void Describe(graph::Model& model, const graph::Node& node, const std::string& value,
              const graph::ValueInfo& info) {
  if (!model.Owner(node)) model.SetInfo(value, info);
}

void ProtectInput(graph::Model& model, graph::Use use, const graph::ValueInfo& info) {
  const std::string value = use.node.input(use.input_index);
  const std::string held = model.FreshName(value + "_held");
  model.InsertNode(Hold(value, held, kBefore), use.node);
  use.node.set_input(use.input_index, held);
  Describe(model, use.node, held, info);
}

void ProtectOutput(graph::Model& model, graph::Node node, const graph::ValueInfo& info) {
  const std::string value = node.output(0);
  const std::string held = model.FreshName(value + "_held");
  node.set_output(0, held);
  model.InsertNode(Hold(held, value, kBehind), model.NodeBehind(held), node);
  Describe(model, node, value, info);
}

// Gives a node that names the type of its output (RandomNormalLike, EyeLike) FLOAT16 back, which
// ONNX Runtime changed to FLOAT.
void RestoreType(graph::Model& model, const graph::Node& node) {
  graph::NodeSpec spec{node.name(), node.op_type(), node.domain(), {}, {}, {}};
  spec.attributes = {{"dtype", static_cast<int64_t>(DataType::kFloat16)}};
  spec.attributes_of = node;
  spec.dropped_attributes = {"dtype"};
  for (size_t i = 0; i < node.num_inputs(); ++i) spec.inputs.push_back(node.input(i));
  model.Replace(node, std::move(spec));
}

// Returns the names of values that look like those that ONNX Runtime inserts.
std::set<std::string> NamesLikeInserted(const graph::Model& model) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name.starts_with(kInserted)) names.insert(name);
  };
  for (const graph::Node& node : model.AllNodes()) {
    for (size_t i = 0; i < node.num_inputs(); ++i) add(node.input(i));
    for (size_t i = 0; i < node.num_outputs(); ++i) add(node.output(i));
  }
  return names;
}

// Removes a node of one input, whose producer gives the node's output then. Returns the producer,
// or nothing if there is none; the node stays then.
std::optional<graph::Node> MergeIntoProducer(graph::Model& model, const graph::Node& node) {
  const std::optional<graph::Node> producer = model.Producer(node.input(0));
  if (producer) model.Replace({node}, [&] { model.Rename(node.input(0), node.output(0)); });
  return producer;
}

void RemoveProtection(graph::Model& model) {
  for (graph::Node node : model.AllNodes()) {
    if (node.domain() != kObserverDomain || node.GetInt("id", kBefore) >= kFunction) continue;
    if (node.GetInt("id", kBefore) == kBehind && MergeIntoProducer(model, node)) continue;
    model.ReplaceAllUses(node.output(0), node.input(0));
    model.RemoveNode(node);
  }
}

}  // namespace

size_t ProtectHalfCasts(graph::Model& model) {
  const std::vector<graph::Node> casts = ComputedCasts(model);
  const std::vector<graph::Use> outer_uses = OuterUses(model);
  if (casts.empty() && outer_uses.empty()) return 0;
  const Types types(model);
  size_t count = 0;
  for (const graph::Use& use : outer_uses) {
    const std::string value = use.node.input(use.input_index);
    if (types.Of(value).type != DataType::kFloat16) continue;
    ProtectInput(model, use, types.Of(value));
    ++count;
  }
  for (graph::Node cast : casts) {
    if (cast.GetInt("to", 0) == static_cast<int64_t>(DataType::kFloat16)) {
      ProtectOutput(model, cast, types.Of(cast.output(0)));
    } else if (types.Of(cast.input(0)).type == DataType::kFloat16) {
      ProtectInput(model, {cast, 0}, types.Of(cast.input(0)));
    } else {
      continue;
    }
    ++count;
  }
  if (count > 0) model.SetOpsetImport(kObserverDomain, 1);
  return count;
}

size_t ProtectHalfFunctions(graph::Model& model) {
  const Types types(model);
  size_t count = 0;
  int64_t position = -1;
  for (graph::Node node : model.AllNodes()) {
    ++position;
    if (!node.domain().empty() || std::ranges::count(kFunctions, node.op_type()) == 0) continue;
    const std::string input = node.input(0);
    const std::string output = node.output(0);
    bool is_held = types.Of(input).type == DataType::kFloat16;
    for (size_t i = 1; i < node.num_inputs(); ++i) {
      is_held = is_held && (node.input(i).empty() || model.IsInitializer(node.input(i)));
    }
    if (!is_held) continue;
    graph::NodeSpec hold = Hold(input, output, kFunction + position);
    hold.name = node.name();
    Describe(model, model.Replace(node, std::move(hold)), output, types.Of(output));
    ++count;
  }
  if (count > 0) model.SetOpsetImport(kObserverDomain, 1);
  return count;
}

void RestoreHalfFunctions(const graph::Model& given, graph::Model& optimized) {
  const std::vector<graph::Node> functions = given.AllNodes();
  for (graph::Node node : optimized.AllNodes()) {
    const int64_t id = node.GetInt("id", kBefore);
    if (node.domain() != kObserverDomain || id < kFunction) continue;
    const graph::Node function = functions[static_cast<size_t>(id - kFunction)];
    // ONNX Runtime may have renamed the value.
    if (!optimized.Producer(function.output(0))) {
      optimized.Rename(node.output(0), function.output(0));
    }
    graph::NodeSpec spec{function.name(), function.op_type(), "", {node.input(0)}, {}, {}};
    for (size_t i = 1; i < function.num_inputs(); ++i) {
      const std::string& input = function.input(i);
      if (!input.empty() && !optimized.IsInitializer(input) && !optimized.IsInput(input)) {
        optimized.SetHeldInitializer(input, given.HoldInitializer(input));
      }
      spec.inputs.push_back(input);
    }
    spec.attributes_of = function;
    optimized.Replace(node, std::move(spec));
  }
}

size_t RestoreHalf(const graph::Model& given, graph::Model& optimized) {
  RemoveProtection(optimized);
  const std::set<std::string> given_names = NamesLikeInserted(given);
  const auto is_inserted = [&](const std::string& name) {
    return name.starts_with(kInserted) && !given_names.contains(name);
  };
  size_t count = 0;
  std::vector<graph::Node> computed;  // in FLOAT
  const auto add = [&](const graph::Node& node) {
    if (std::ranges::find(computed, node) == computed.end()) computed.push_back(node);
  };
  for (graph::Node node : optimized.AllNodes()) {
    if (!IsCast(node) || !node.name().starts_with(kInserted)) continue;
    const std::string input = node.input(0);
    const std::string output = node.output(0);
    if (is_inserted(output)) {
      optimized.ReplaceAllUses(output, input);
    } else if (!is_inserted(input)) {
      continue;  // it was given
    } else {
      // The Cast makes FLOAT16 of what an operator computed in FLOAT.
      if (const auto producer = MergeIntoProducer(optimized, node)) {
        add(*producer);
        ++count;
      }
      continue;
    }
    optimized.RemoveNode(node);
    ++count;
  }
  // A value still has ONNX Runtime's name if both Casts between two operators are gone.
  for (const graph::Node& node : optimized.AllNodes()) {
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (!is_inserted(node.output(i))) continue;
      optimized.Rename(node.output(i),
                       optimized.FreshName(node.output(i).substr(kInserted.size())));
      add(node);
    }
  }
  for (const graph::Node& node : computed) {
    if (node.domain().empty() &&
        node.GetInt("dtype", 0) == static_cast<int64_t>(DataType::kFloat)) {
      RestoreType(optimized, node);
    }
  }
  return count;
}

}  // namespace bitpress::runtime
