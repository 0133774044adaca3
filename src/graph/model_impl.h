// The inside of a Model, for the files of this room: the protobuf, the initializers' data beside
// it, and the index of values.
//
// Initializers above kKeepInMessage bytes are stubs in the protobuf (external, at kStubLocation);
// their data lie in ValueEntry::storage, shared between clones. So copying, checking and shape
// inference never touch them, and a model may be larger than one protobuf message. Small ones, such
// as the shape of a Reshape, stay in raw_data, where shape inference reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/external_data.h"
#include "graph/model.h"
#include "onnx/onnx_pb.h"

namespace bitpress::graph {

struct Origins;

inline constexpr size_t kKeepInMessage = 4096;
// ONNX's checker does not look for files whose location begins with '#'.
inline constexpr const char* kStubLocation = "#bitpress";

// A group of initializers that are computed together when the model is written.
struct DeferredGroup {
  std::vector<DeferredTensor> tensors;
  TensorProducer produce;

  // Returns the tensors. Throws Error(kInvalidArgument) if the producer gives other tensors than
  // declared.
  std::vector<Tensor> Produce() const;
};

struct ValueUse {
  onnx::NodeProto* node = nullptr;
  size_t input_index = 0;
};

// The index's entry of one value, of the main graph or of a body.
struct ValueEntry {
  onnx::NodeProto* producer = nullptr;
  std::vector<ValueUse> uses;
  onnx::GraphProto* body = nullptr;  // body that defines it; null: the main graph
  bool is_graph_input = false;
  bool is_body_input = false;
  size_t num_outputs = 0;  // outputs of the main graph and of bodies that name it
  bool is_sparse_initializer = false;
  bool is_body_initializer = false;
  onnx::TensorProto* initializer = nullptr;
  TensorStorage storage;                          // data of the initializer
  std::shared_ptr<const DeferredGroup> deferred;  // group that computes the data, if deferred
  size_t index_in_group = 0;
  // The entries for the value in the lists of the graphs. A body may also describe a value from
  // around it.
  const onnx::ValueInfoProto* input_info = nullptr;
  const onnx::ValueInfoProto* output_info = nullptr;  // null also where the output has no type
  onnx::ValueInfoProto* listed_info = nullptr;        // in value_info
  onnx::GraphProto* listed_in = nullptr;  // body whose value_info that is; null: the main graph

  // Returns the best description, or null. Inputs say most, value_info least.
  const onnx::ValueInfoProto* info() const {
    return input_info != nullptr ? input_info : output_info != nullptr ? output_info : listed_info;
  }
  bool IsOutput() const { return num_outputs > 0; }
  bool IsDefined() const {
    return producer != nullptr || is_graph_input || is_body_input || initializer != nullptr ||
           is_sparse_initializer || is_body_initializer;
  }
  bool IsRead() const { return !uses.empty() || IsOutput(); }
};

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using ValueMap = std::unordered_map<std::string, ValueEntry, StringHash, std::equal_to<>>;

// The place of a node in a body.
struct BodyPlace {
  onnx::GraphProto* graph = nullptr;
  onnx::NodeProto* owner = nullptr;
};

struct ModelImpl {
  onnx::ModelProto proto;
  uint64_t file_bytes = 0;  // see Model::file_bytes
  ValueMap values;
  std::unordered_map<const onnx::NodeProto*, BodyPlace> body_nodes;
  std::unordered_map<std::string, size_t> node_names;  // number of nodes of each name
  // The bytes of one message that protobuf allows. Tests lower the number.
  uint64_t max_message_bytes = std::numeric_limits<int32_t>::max();
  std::shared_ptr<const Origins> origins;             // may be null
  std::vector<onnx::NodeProto*>* inserted = nullptr;  // takes inserted nodes, during a replacement
  // Counts calls of IndexInfo. Tests see from it that an edit does not walk over the whole model.
  size_t num_info_indexings = 0;

  // Const functions of a model may run concurrently, and protobuf's mutable_ accessors write. So
  // reading and changing have two names. An overloaded accessor would choose the second one
  // wherever the object is not const, as behind a pointer.
  const onnx::GraphProto& graph() const { return proto.graph(); }
  onnx::GraphProto& mutable_graph() { return *proto.mutable_graph(); }
  const ValueEntry* Find(std::string_view value) const;
  ValueEntry& At(std::string_view value) { return values[std::string(value)]; }

  // Takes the data of an initializer of the graph over: checks them, makes them raw, and moves
  // large ones out of the message. Throws Error(kInvalidModel). REQUIRES: there is a reader if the
  // data are external.
  void AdoptInitializer(onnx::TensorProto& tensor, ExternalDataReader* reader = nullptr);
  // Makes an empty message for an initializer that is new or replaces one. Throws
  // Error(kInvalidArgument) if the name belongs to something else, or the type has no size.
  ValueEntry& ResetInitializer(const std::string& name, DataType type,
                               std::span<const int64_t> dims);
  // Sets the data of an initializer, in the message or beside it. They have the right size already.
  static void PlaceData(ValueEntry& entry, TensorStorage storage);
  // Marks an initializer whose data are not in the message.
  static void MakeStub(onnx::TensorProto& tensor);
  // Builds the index, but for the initializers. REQUIRES: the model passed the checker.
  void IndexGraph();
  // Indexes a node and its bodies. `place` is the place of the node itself.
  void IndexNode(onnx::NodeProto& node, const BodyPlace& place);
  void UnindexNode(onnx::NodeProto& node);
  void ReleaseOutputs(const onnx::NodeProto& node);  // see Model::ReleaseOutputs
  void IndexBody(onnx::GraphProto& body, onnx::NodeProto& owner);
  void UnindexBody(onnx::GraphProto& body);
  // Returns the place of a node, which is null in the main graph.
  BodyPlace PlaceOf(const onnx::NodeProto* node) const;
  onnx::GraphProto* BodyOf(const onnx::NodeProto* node) const { return PlaceOf(node).graph; }
  // Reads all inputs, outputs and value_info anew, after changes to many of them. Edits of single
  // values keep the index themselves: there may be one for each weight of a model.
  void IndexInfo();
  // Takes what the lists of a graph say into the index, or out of it. `body`: null for the main
  // graph. REQUIRES for IndexListsOf: the definitions of the graph are in the index.
  void IndexListsOf(onnx::GraphProto& graph, onnx::GraphProto* body);
  void UnindexListsOf(onnx::GraphProto& graph);
  // Returns the entry in value_info of the graph that defines the value, a new one if need be.
  onnx::ValueInfoProto& ListedInfo(const std::string& value);
  // Forgets a value that nothing defines or reads any more.
  void DropIfUnknown(std::string_view value);

  void RemoveGraphInput(std::string_view name);
  // Deletes nodes of a graph that are no longer in the index.
  static void RemoveNodes(onnx::GraphProto& graph,
                          const std::unordered_set<const onnx::NodeProto*>& removed);
  // Runs ONNX's checker. `in_full` also infers all types and shapes, and compares. Throws
  // Error(kInvalidModel).
  void Check(bool in_full = false) const;
};

// The access of this room's free functions to the inside.
struct ModelAccess {
  static ModelImpl& Impl(Model& model) { return *model.impl_; }
  static const ModelImpl& Impl(const Model& model) { return *model.impl_; }
  static onnx::NodeProto& Proto(const Node& node) { return *node.proto_; }
  static Model Make(std::unique_ptr<ModelImpl> impl) { return Model(std::move(impl)); }
};

// Calls `function` for each node, including those in the bodies of attributes.
template <typename Nodes, typename Function>
void ForEachNode(Nodes& nodes, const Function& function) {
  for (auto& node : nodes) {
    function(node);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) ForEachNode(*attribute.mutable_g()->mutable_node(), function);
      for (auto& body : *attribute.mutable_graphs()) {
        ForEachNode(*body.mutable_node(), function);
      }
    }
  }
}

// Calls `function` for each body of a node itself.
template <typename NodeProto, typename Function>
void ForEachOwnBody(NodeProto& node, const Function& function) {
  if constexpr (std::is_const_v<NodeProto>) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) function(attribute.g());
      for (const auto& body : attribute.graphs()) function(body);
    }
  } else {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) function(*attribute.mutable_g());
      for (auto& body : *attribute.mutable_graphs()) function(body);
    }
  }
}

// Calls `function` for every body below the nodes, at any depth, the outer ones first.
template <typename Nodes, typename Function>
void ForEachBody(Nodes& nodes, const Function& function) {
  for (auto& node : nodes) {
    ForEachOwnBody(node, [&](auto& body) {
      function(body);
      if constexpr (std::is_const_v<Nodes>) {
        ForEachBody(body.node(), function);
      } else {
        ForEachBody(*body.mutable_node(), function);
      }
    });
  }
}

// Calls `function` with the name of each value that a graph itself defines.
template <typename Function>
void ForEachDefinition(const onnx::GraphProto& graph, const Function& function) {
  for (const auto& input : graph.input()) function(input.name());
  for (const auto& tensor : graph.initializer()) function(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) function(tensor.values().name());
  for (const auto& node : graph.node()) {
    for (const auto& output : node.output()) {
      if (!output.empty()) function(output);
    }
  }
}

// Returns the values that the bodies of a node's attributes read from outside, as views into the
// node.
std::vector<std::string_view> CapturedValues(const onnx::NodeProto& node);
// Gives values of bodies another name if theirs is taken, in another body or outside.
void MakeNamesUnique(onnx::GraphProto& graph);
// Puts the nodes into topological order, leaving a sorted graph as it is. Throws
// Error(kInvalidModel) naming the nodes of a cycle.
void SortNodes(onnx::GraphProto& graph);
// Returns the node's description for messages, as Node::Describe.
std::string DescribeNode(const onnx::NodeProto& node);

ValueInfo ToValueInfo(const onnx::TypeProto& type);

// Returns whether the type says of which elements a value consists.
bool IsKnown(const onnx::TypeProto& type);
// Removes the descriptions of values, in bodies too, that do not say of which elements a value
// consists, and such types of outputs. ONNX Runtime refuses models that have them.
void RemoveUnknownTypes(onnx::GraphProto& graph);

// Fills the proto with the described node. REQUIRES: the proto is empty.
void FillNode(const NodeSpec& spec, onnx::NodeProto& proto);

// Registers the operators of com.amd.quark, com.vai.quantize and bitpress with the ONNX library,
// once.
void RegisterSchemas();

}  // namespace bitpress::graph
