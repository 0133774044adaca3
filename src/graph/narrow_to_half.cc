#include "graph/narrow_to_half.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "graph/half_values.h"
#include "graph/model_impl.h"
#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"

namespace bitpress::graph {
namespace {

using Formal = onnx::OpSchema::FormalParameter;

// Returns whether the type of the parameter is a variable of the schema that FLOAT16 fits.
bool TakesHalf(const Formal& formal) {
  static const onnx::DataType kHalfType = onnx::Utils::DataTypeUtils::ToType("tensor(float16)");
  return formal.GetTypes().contains(kHalfType);
}

// Returns the parameter of an input or output; the last one may be variadic.
const Formal& FormalAt(const std::vector<Formal>& formals, size_t i) {
  return formals[std::min(i, formals.size() - 1)];
}

bool SaysTypeByAttribute(const onnx::OpSchema& schema) {
  return std::ranges::any_of(schema.attributes(),
                             [](const auto& entry) { return IsTypeAttribute(entry.first); });
}

// Knows the types of all values, of constants in bodies too, which nothing describes.
class TypeFinder {
 public:
  explicit TypeFinder(const Model& model) : model_(model) {
    ForEachBody(ModelAccess::Impl(model).graph().node(), [this](const onnx::GraphProto& body) {
      for (const onnx::TensorProto& tensor : body.initializer()) {
        ValueInfo& info = constants_[tensor.name()];
        info = {static_cast<DataType>(tensor.data_type()), true, {}};
        for (const int64_t dim : tensor.dims()) info.shape.push_back({dim, ""});
      }
    });
  }

  ValueInfo InfoOf(const std::string& value) const {
    const auto constant = constants_.find(value);
    return constant != constants_.end() ? constant->second : model_.InfoOf(value);
  }

 private:
  const Model& model_;
  std::unordered_map<std::string, ValueInfo> constants_;
};

class PortFinder {
 public:
  explicit PortFinder(const Model& model)
      : model_(model), types_(model), opsets_(model.OpsetImports()) {}

  HalfPorts Find(const Node& node) const {
    HalfPorts ports{std::vector<bool>(node.num_inputs()), std::vector<bool>(node.num_outputs()), "",
                    false};
    if (!HasFloats(node)) return ports;
    ports.why_float = WhyFloat(node);
    ports.is_exact = !node.domain().empty();
    if (!ports.why_float.empty()) return ports;
    const onnx::OpSchema& schema = *SchemaOf(node);
    if (node.op_type() == "Cast") {
      ports.inputs[0] = IsFloat(node.input(0));
      ports.outputs[0] = IsFloat(node.output(0));
      return ports;
    }
    std::set<std::string_view> variables;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const Formal& formal = FormalAt(schema.inputs(), i);
      ports.inputs[i] = IsFloat(node.input(i)) && TakesHalf(formal);
      if (ports.inputs[i]) variables.insert(formal.GetTypeStr());
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const Formal& formal = FormalAt(schema.outputs(), i);
      ports.outputs[i] =
          IsFloat(node.output(i)) && TakesHalf(formal) && variables.contains(formal.GetTypeStr());
    }
    if (variables.empty()) ports.why_float = "the operator takes no FLOAT16";
    return ports;
  }

 private:
  bool IsFloat(const std::string& value) const {
    return !value.empty() && types_.InfoOf(value).type == DataType::kFloat;
  }

  bool HasFloats(const Node& node) const {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (IsFloat(node.input(i))) return true;
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (IsFloat(node.output(i))) return true;
    }
    return false;
  }

  const onnx::OpSchema* SchemaOf(const Node& node) const {
    const auto opset = opsets_.find(node.domain());
    if (opset == opsets_.end() || !node.domain().empty()) return nullptr;
    return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset->second), "");
  }

  // Returns the first value whose type is not known, or "".
  std::string UnknownValue(const Node& node) const {
    for (size_t i = 0; i < node.num_inputs() + node.num_outputs(); ++i) {
      const std::string& value =
          i < node.num_inputs() ? node.input(i) : node.output(i - node.num_inputs());
      if (!value.empty() && types_.InfoOf(value).type == DataType::kUndefined) return value;
    }
    return "";
  }

  std::string WhyFloat(const Node& node) const {
    if (node.HasSubgraph()) return "its bodies exchange FLOAT values";
    const onnx::OpSchema* const schema = SchemaOf(node);
    if (schema == nullptr) {
      return node.domain().empty() ? "the types of the operator are not known"
                                   : fmt::format("operators of {} keep FLOAT", node.domain());
    }
    if (const std::string value = UnknownValue(node); !value.empty()) {
      return model_.IsNoTensor(value) ? "it gives or takes no tensor"
                                      : "the type of one of its values is not known";
    }
    if (node.op_type() != "Cast" && SaysTypeByAttribute(*schema)) {
      return "its type is an attribute";
    }
    if (node.num_inputs() > 0 && schema->inputs().empty()) return "its inputs are not known";
    return "";
  }

  const Model& model_;
  TypeFinder types_;
  std::map<std::string, int64_t> opsets_;
};

class HalfNarrower {
 public:
  HalfNarrower(Model& model, std::span<const FloatNode> kept) : model_(model), types_(model) {
    const std::vector<Node> nodes = model.AllNodes();
    BITPRESS_DCHECK(nodes.size() == kept.size());
    std::vector<HalfPorts> ports = FindHalfPorts(model);
    for (size_t i = 0; i < nodes.size(); ++i) {
      Choice& choice = choices_[&ModelAccess::Proto(nodes[i])];
      choice.is_exact = kept[i].is_exact || ports[i].is_exact;
      if (!kept[i].reason.empty() || !ports[i].why_float.empty()) continue;
      choice.ports = std::move(ports[i]);
    }
    onnx::GraphProto& graph = ModelAccess::Impl(model).mutable_graph();
    const auto add = [this](const std::string& value) { AddFloat(value); };
    ForEachDefinition(graph, add);
    ForEachBody(*graph.mutable_node(),
                [&](const onnx::GraphProto& body) { ForEachDefinition(body, add); });
  }

  NarrowedConstants Run() {
    for (const Node& node : model_.AllNodes()) SetCastType(node);
    for (const std::string& value : values_) {
      if (model_.IsInitializer(value)) {
        NarrowConstant(value);
      } else {
        NarrowValue(value);
      }
    }
    model_.InferShapes();
    return report_;
  }

 private:
  struct Choice {
    HalfPorts ports;
    bool is_exact = false;
  };
  struct SplitUses {
    std::vector<Use> half;
    std::vector<Use> floats;
    bool is_exact = false;  // one of the FLOAT readers wants the very constant
  };

  void AddFloat(const std::string& value) {
    if (types_.InfoOf(value).type == DataType::kFloat) values_.push_back(value);
  }

  const Choice& ChoiceOf(const Node& node) const {
    static const Choice kNone;
    const auto found = choices_.find(&ModelAccess::Proto(node));
    return found == choices_.end() ? kNone : found->second;
  }

  bool GivesHalf(const Node& node, size_t output) const {
    const std::vector<bool>& outputs = ChoiceOf(node).ports.outputs;
    return output < outputs.size() && outputs[output];
  }

  void SetCastType(const Node& node) {
    if (node.op_type() != "Cast" || !node.domain().empty() || !GivesHalf(node, 0)) return;
    for (onnx::AttributeProto& attribute : *ModelAccess::Proto(node).mutable_attribute()) {
      if (IsTypeAttribute(attribute.name())) attribute.set_i(static_cast<int>(DataType::kFloat16));
    }
  }

  SplitUses Split(const std::string& value) const {
    SplitUses uses;
    for (const Use& use : model_.AllUses(value)) {
      const Choice& choice = ChoiceOf(use.node);
      const bool is_half =
          use.input_index < choice.ports.inputs.size() && choice.ports.inputs[use.input_index];
      (is_half ? uses.half : uses.floats).push_back(use);
      if (!is_half) uses.is_exact = uses.is_exact || choice.is_exact;
    }
    return uses;
  }

  static void Redirect(std::vector<Use>& uses, const std::string& value) {
    for (Use& use : uses) use.node.set_input(use.input_index, value);
  }

  void Describe(const std::string& value, ValueInfo info) {
    info.type = DataType::kFloat16;
    model_.SetInfo(value, info);
  }

  void NarrowValue(const std::string& value) {
    SplitUses uses = Split(value);
    std::optional<Node> producer = model_.Producer(value);
    const ValueInfo info = types_.InfoOf(value);
    for (size_t i = 0; producer && i < producer->num_outputs(); ++i) {
      if (producer->output(i) != value || !GivesHalf(*producer, i)) continue;
      if (uses.floats.empty() && !model_.IsOutput(value)) return Describe(value, info);
      const std::optional<Node> next = model_.NodeBehind(value);
      const std::string half = model_.FreshName(value + "_half");
      producer->set_output(i, half);
      Redirect(uses.half, half);
      model_.InsertNode(CastSpec(model_, half, value, DataType::kFloat), next, producer);
      return Describe(half, info);
    }
    if (uses.half.empty()) return;
    const std::string half = model_.FreshName(value + "_half");
    model_.InsertNode(CastSpec(model_, value, half, DataType::kFloat16), model_.NodeBehind(value),
                      producer);
    Redirect(uses.half, half);
    Describe(half, info);
  }

  void NarrowConstant(const std::string& name) {
    constexpr int64_t kLeastLarge = 1024;
    SplitUses uses = Split(name);
    const bool is_large = NumElements(model_.Initializer(name).dims) >= kLeastLarge;
    const bool must_stay = model_.IsOutput(name) || uses.is_exact;
    if (uses.half.empty() && (!is_large || must_stay || HasBeyond(name))) return;
    if (!must_stay && (uses.floats.empty() || is_large)) {
      ToHalf(name, name);
      if (uses.floats.empty()) return;
      const std::string floats = model_.FreshName(name + "_float");
      model_.InsertNode(CastSpec(model_, name, floats, DataType::kFloat), model_.Nodes().front());
      Redirect(uses.floats, floats);
      return;
    }
    const std::string half = model_.FreshName(name + "_half");
    ToHalf(name, half);
    Redirect(uses.half, half);
  }

  // Returns whether FLOAT16 lacks the range for an element.
  bool HasBeyond(const std::string& name) const {
    const InitializerView constant = model_.Initializer(name);
    return std::ranges::any_of(constant.values<float>(), [](float value) {
      return std::isfinite(value) && std::fabs(value) > kLargestHalf;
    });
  }

  void ToHalf(const std::string& from, const std::string& to) {
    ++report_.num_constants;
    report_.num_bytes += model_.Initializer(from).bytes.size() / 2;
    ConvertInitializer(model_, from, to, DataType::kFloat16,
                       [&](std::span<const std::byte> floats, std::byte* halves) {
                         for (size_t i = 0; i < floats.size() / sizeof(float); ++i) {
                           float value = 0;
                           std::memcpy(&value, &floats[i * sizeof(value)], sizeof(value));
                           const uint16_t half = NarrowedFloat(value);
                           std::memcpy(halves + i * sizeof(half), &half, sizeof(half));
                           const bool is_clipped =
                               std::isfinite(value) && std::fabs(value) > kLargestHalf;
                           report_.num_clipped += is_clipped ? 1 : 0;
                           report_.num_vanished += value != 0 && (half & 0x7FFFU) == 0 ? 1 : 0;
                         }
                       });
  }

  Model& model_;
  TypeFinder types_;
  std::unordered_map<const onnx::NodeProto*, Choice> choices_;
  std::vector<std::string> values_;
  NarrowedConstants report_;
};

}  // namespace

std::vector<HalfPorts> FindHalfPorts(const Model& model) {
  const PortFinder finder(model);
  std::vector<HalfPorts> ports;
  for (const Node& node : model.AllNodes()) ports.push_back(finder.Find(node));
  return ports;
}

NarrowedConstants NarrowToHalf(Model& model, std::span<const FloatNode> kept) {
  return HalfNarrower(model, kept).Run();
}

}  // namespace bitpress::graph
