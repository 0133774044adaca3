// The call of ONNX's checker, on models as they are found in the world.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "graph/model_impl.h"
#include "graph/onnx_error.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

namespace bitpress::graph {
namespace {

constexpr const char* kExperimentalDomain = "bitpress.experimental";

bool LacksType(const onnx::ValueInfoProto& info) { return !IsKnown(info.type()); }

bool LacksShape(const onnx::ValueInfoProto& info) {
  return info.type().has_tensor_type() && !info.type().tensor_type().has_shape();
}

// Returns whether ONNX has deprecated the operator in that operator set. Its checker refuses such a
// node, but ONNX Runtime runs some (GroupNormalization in set 18), and so it is the model's right.
bool IsDeprecated(const onnx::NodeProto& node, int64_t opset) {
  if (!node.domain().empty()) return false;
  const auto* const schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), "");
  return schema != nullptr && schema->Deprecated();
}

// Returns whether the node's operator stands in ONNX's domain but has no valid schema: an operator
// of ONNX's first releases (ImageScaler, Crop, ...), one that ONNX Runtime fuses LayerNorms to,
// whatever the operator set, or a deprecated one.
bool IsExperimental(const onnx::NodeProto& node, int64_t opset) {
  constexpr int64_t kFirstLayerNormOpset = 17;
  return onnx::checker::check_is_experimental_op(node) || IsDeprecated(node, opset) ||
         (node.domain().empty() &&
          (node.op_type() == "SimplifiedLayerNormalization" ||
           (node.op_type() == "LayerNormalization" && opset < kFirstLayerNormOpset)));
}

// Returns the version of the standard operator set.
int64_t OpsetOf(const onnx::ModelProto& proto) {
  int64_t opset = 0;
  for (const auto& import : proto.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  }
  return opset;
}

bool HasExperimentalOperator(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                             int64_t opset) {
  return std::ranges::any_of(nodes, [&](const onnx::NodeProto& node) {
    return IsExperimental(node, opset) ||
           std::ranges::any_of(node.attribute(), [&](const onnx::AttributeProto& attribute) {
             return HasExperimentalOperator(attribute.g().node(), opset) ||
                    std::ranges::any_of(attribute.graphs(), [&](const onnx::GraphProto& body) {
                      return HasExperimentalOperator(body.node(), opset);
                    });
           });
  });
}

bool HasUnnamedGraph(const onnx::GraphProto& graph) {
  bool is_unnamed = graph.name().empty();
  ForEachBody(graph.node(), [&](const onnx::GraphProto& body) {
    is_unnamed = is_unnamed || body.name().empty();
  });
  return is_unnamed;
}

// Returns whether the graphs have names, each input a shape and each output a type and a shape, as
// the checker wants. Models without them run all the same, and exporters and tools write such
// models.
bool IsComplete(const onnx::GraphProto& graph) {
  return !HasUnnamedGraph(graph) && std::ranges::none_of(graph.input(), LacksShape) &&
         std::ranges::none_of(graph.output(), LacksShape) &&
         std::ranges::none_of(graph.output(), LacksType);
}

void Complete(onnx::GraphProto& graph) {
  const auto name = [](onnx::GraphProto& one) {
    if (one.name().empty()) one.set_name("graph");
  };
  name(graph);
  ForEachBody(*graph.mutable_node(), name);
  for (auto& output : *graph.mutable_output()) {
    if (!LacksType(output)) continue;
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  for (auto* infos : {graph.mutable_input(), graph.mutable_output()}) {
    for (auto& info : *infos) {
      if (LacksShape(info)) info.mutable_type()->mutable_tensor_type()->mutable_shape();
    }
  }
}

// Moves experimental operators to a domain of their own, in which they pass in silence. The checker
// would refuse them, or print a warning about them, and a library does not print.
void MoveExperimentalOperators(onnx::ModelProto& proto) {
  const int64_t opset = OpsetOf(proto);
  const auto move = [opset](onnx::NodeProto& node) {
    if (IsExperimental(node, opset)) node.set_domain(kExperimentalDomain);
  };
  const auto import = [](auto& imports) {
    auto* const entry = imports.Add();
    entry->set_domain(kExperimentalDomain);
    entry->set_version(1);
  };
  ForEachNode(*proto.mutable_graph()->mutable_node(), move);
  import(*proto.mutable_opset_import());
  for (auto& function : *proto.mutable_functions()) {
    ForEachNode(*function.mutable_node(), move);
    import(*function.mutable_opset_import());
  }
}

// The most nodes after all calls of functions. Shape inference and ONNX Runtime look into a
// function anew for each call, and calls multiply: if each of thirty functions calls the next one
// twice, the first stands for a billion nodes.
constexpr uint64_t kMostNodesWithCalls = 5'000'000;

// A counter of nodes, as if the body of a function stood in place of each call. REQUIRES: no
// function calls itself, which the checker ensures.
class NodesWithCalls {
 public:
  explicit NodesWithCalls(const onnx::ModelProto& proto) {
    for (const auto& function : proto.functions()) {
      functions_.emplace(Key{function.domain(), function.name(), function.overload()},
                         Function{&function});
    }
  }

  // Returns the number of nodes, which is exact up to the limit.
  uint64_t Count(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    uint64_t count = 0;
    const auto add = [&](uint64_t more) {
      count = std::min(count + more, kMostNodesWithCalls + 1);
    };
    for (const onnx::NodeProto& node : nodes) {
      add(1);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) add(Count(attribute.g().node()));
        for (const auto& body : attribute.graphs()) add(Count(body.node()));
      }
      const auto called = functions_.find({node.domain(), node.op_type(), node.overload()});
      if (called == functions_.end()) continue;
      Function& function = called->second;
      if (!function.count) function.count = Count(function.proto->node());
      add(*function.count);
    }
    return count;
  }

 private:
  using Key = std::array<std::string_view, 3>;
  struct Function {
    const onnx::FunctionProto* proto;
    std::optional<uint64_t> count = {};
  };
  std::map<Key, Function> functions_;
};

void RequireFewCalls(const onnx::ModelProto& proto) {
  if (proto.functions().empty()) return;
  if (NodesWithCalls(proto).Count(proto.graph().node()) <= kMostNodesWithCalls) return;
  Fail(ErrorCode::kInvalidModel,
       "its functions call each other so often that it has more than {} nodes",
       kMostNodesWithCalls);
}

// Requires that every description of a value says of which elements the value consists. ONNX's
// checker does not look, but ONNX Runtime does.
void RequireKnownTypes(const onnx::GraphProto& graph) {
  const auto require = [](const onnx::GraphProto& one) {
    const auto found = std::ranges::find_if(one.value_info(), LacksType);
    if (found == one.value_info().end()) return;
    Fail(ErrorCode::kInvalidModel, "the description of value '{}' (value_info) has no element type",
         found->name());
  };
  require(graph);
  ForEachBody(graph.node(), require);
}

}  // namespace

void ModelImpl::Check(bool in_full) const {
  RegisterSchemas();
  TranslateErrors(ErrorCode::kInvalidModel, "ONNX's checker", [&] {
    const auto& graph = proto.graph();
    RequireKnownTypes(graph);
    const int64_t opset = OpsetOf(proto);
    const bool is_experimental =
        HasExperimentalOperator(graph.node(), opset) ||
        std::ranges::any_of(proto.functions(), [opset](const onnx::FunctionProto& function) {
          return HasExperimentalOperator(function.node(), opset);
        });
    onnx::ModelProto changed;
    const bool is_checked_as_is = !is_experimental && IsComplete(graph);
    if (!is_checked_as_is) {
      changed = proto;
      Complete(*changed.mutable_graph());
      if (is_experimental) MoveExperimentalOperators(changed);
    }
    onnx::checker::check_model(is_checked_as_is ? proto : changed);
    RequireFewCalls(proto);
    if (!in_full) return;
    // Types that were made up above are not to be compared with inferred ones.
    changed = proto;
    if (is_experimental) MoveExperimentalOperators(changed);
    const onnx::ShapeInferenceOptions options(/*check_type=*/true, /*error_mode=*/1,
                                              /*enable_data_propagation=*/false);
    onnx::shape_inference::InferShapes(changed, onnx::OpSchemaRegistry::Instance(), options);
  });
}

}  // namespace bitpress::graph
