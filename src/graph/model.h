// The ONNX model as the other rooms see it: nodes, values, initializers, and the producers and
// readers of values. For example:
//
//   Model model = Model::Load("model.onnx");
//   for (const Node& node : model.Nodes()) Visit(node.op_type());
//   model.Save("copy.onnx");
//
// This room is the only one that knows protobuf, and everything here is in our own types. A Model
// owns its file's content. Node handles stay valid while the model lives and the node is not
// removed. Not thread-safe, except that const functions may run concurrently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/tensor.h"

namespace onnx {
class NodeProto;
}

namespace bitpress::graph {

struct ModelImpl;

struct Dimension {
  int64_t value = -1;  // -1: not known
  std::string symbol;  // name of a symbolic dimension, such as "N"
};

// The type and shape of a value.
struct ValueInfo {
  DataType type = DataType::kUndefined;
  bool has_shape = false;
  std::vector<Dimension> shape;  // meaningful if has_shape
};

// A reference, in the body of a function, to the attribute `name` of the node that calls it.
struct AttributeReference {
  enum class Type { kInt, kFloat, kString, kInts, kFloats };
  std::string name;
  Type type = Type::kInt;
};

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                               std::vector<float>, Tensor, AttributeReference>;

// A handle to one node, of the main graph or of the body of an If, Loop or Scan; cheap to copy.
class Node {
 public:
  const std::string& name() const;  // may be empty
  const std::string& op_type() const;
  const std::string& domain() const;  // "" for standard ONNX
  size_t num_inputs() const;
  size_t num_outputs() const;
  // Return the name of an input or output. Throw Error(kInvalidModel) if there is no such one.
  const std::string& input(size_t i) const;  // "" for an omitted optional input
  const std::string& output(size_t i) const;
  // Rename an input or output. Renaming an output renames no use of it. Throw
  // Error(kInvalidArgument) if there is no such input or output; set_output also if the name is
  // empty or the value exists already.
  void set_input(size_t i, const std::string& value);
  void set_output(size_t i, const std::string& value);

  bool HasAttribute(std::string_view name) const;
  std::vector<std::string> AttributeNames() const;
  void RemoveAttribute(std::string_view name);  // nothing happens if it is absent
  // Return the attribute, or the fallback if it is absent. Throw Error(kInvalidModel) if it has
  // another type.
  int64_t GetInt(std::string_view name, int64_t fallback) const;
  float GetFloat(std::string_view name, float fallback) const;
  std::string GetString(std::string_view name, std::string fallback) const;
  std::vector<int64_t> GetInts(std::string_view name) const;
  bool HasSubgraph() const;  // If, Loop, Scan, ...

  // Returns the node's description for messages: "Conv 'conv1'", or "Conv (output 'y')" if the node
  // has no name.
  std::string Describe() const;
  bool operator==(const Node&) const = default;

 private:
  friend class Model;
  friend struct ModelAccess;
  Node(onnx::NodeProto* proto, ModelImpl* model) : proto_(proto), model_(model) {}
  onnx::NodeProto* proto_;
  ModelImpl* model_;
};

// The description of a node to be added.
struct NodeSpec {
  std::string name;
  std::string op_type;
  std::string domain;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, Attribute>> attributes;
  // A node of the same model whose attributes are added, without the dropped ones.
  std::optional<Node> attributes_of = {};
  std::vector<std::string> dropped_attributes = {};
};

// The description of a model-local function, an operator made of others. Its body uses the operator
// sets of the model.
struct FunctionSpec {
  std::string domain;
  std::string name;
  std::string doc;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;  // names, all of them required
  std::vector<NodeSpec> nodes;          // in topological order
};

// One place at which a value is read.
struct Use {
  Node node;
  size_t input_index;
};

// A value that the body of an If, Loop or Scan defines, at any depth: one of its inputs or the
// output of one of its nodes.
struct BodyValue {
  std::string name;
  ValueInfo info;  // as far as known
};

// A view of a constant of the model. It is valid until the model is changed.
struct InitializerView {
  DataType type = DataType::kUndefined;
  std::span<const int64_t> dims;
  std::span<const std::byte> bytes;  // raw little-endian, sub-byte types packed

  // Returns the elements. REQUIRES: T is the C++ type of `type`.
  template <typename T>
  std::span<const T> values() const {
    BITPRESS_DCHECK(IsOfSize(type, sizeof(T)));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// A constant of the model that stays alive as long as this object, however the model changes.
struct HeldInitializer {
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  // The bytes lie in a mapped file, as those of external data do.
  bool is_mapped = false;

  // Takes mapped bytes out of this process's memory until they are used again. Call it behind the
  // last use for a while, so that memory does not grow with the model.
  void Release() const;
};

// A model as a message without the data of its large initializers. The message says that they are
// in a file, which there is not.
struct DetachedModel {
  std::string message;
  std::vector<std::pair<std::string, HeldInitializer>> initializers;  // the names, and the data
};

// The declaration of an initializer whose data are computed when the model is written.
struct DeferredTensor {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;
};
// A function that computes the tensors of one group, in the order in which they were declared.
using TensorProducer = std::function<std::vector<Tensor>()>;

// The place of the initializers of a saved model.
enum class ExternalData {
  kIfNeeded,  // in the model's file, if that stays below 2 GB
  kAlways,    // in a file beside it
};

// The first operator set in which Softmax, LogSoftmax and Hardmax normalize over one dimension, and
// not over all from one on.
inline constexpr int64_t kFirstOpsetWithOneAxis = 13;
// The first operator set in which Reshape has the attribute allowzero.
inline constexpr int64_t kFirstOpsetWithAllowZero = 14;

class Model {
 public:
  // Reads a model and checks that it is one: parses it, verifies sizes and external data (whose
  // paths must stay inside the model's folder), and runs ONNX's checker. Throws Error(kIo) or
  // Error(kInvalidModel) naming the file and what is wrong. External data is mapped, not read, so
  // that its file must not be shortened while the model lives. Nodes are sorted if need be. Models
  // older than IR version 4 become version 4, whose initializers need not be inputs. If a body uses
  // a name that another graph uses too, as two branches of an If often do, the value in the body
  // gets the name with a number: one name is one value in the whole model.
  static Model Load(const std::filesystem::path& path);
  // Does the same with a serialized model, whose external data lies in `folder`.
  static Model Parse(std::string_view bytes, const std::filesystem::path& folder = ".");

  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  Model Clone() const;

  // Writes a temporary file for other readers: StagedModel writes those that users keep. At any
  // moment there is the whole old file or the whole new one. Over 2 GB, or with `kAlways`, the
  // initializers of 1 KiB and more go to
  // `<file name>.data` beside it. If that exists, they go to `<file name>.1.data` and so on,
  // because the old model may need its data file until it is replaced; then that file is removed.
  // Returns the number of bytes written. Throws Error(kIo), and the exceptions of the producers of
  // deferred initializers; no file is left behind then. The file that the model was loaded from may
  // be written over.
  uint64_t Save(const std::filesystem::path& path,
                ExternalData external_data = ExternalData::kIfNeeded) const;
  // Returns one protobuf message with all data inside. Throws Error(kUnsupported) over 2 GB.
  std::string Serialize() const;
  // Returns the model for a reader that takes large initializers from memory. Their data are not
  // copied; those of deferred initializers are computed. Throws as Save does.
  DetachedModel Detach() const;

  // Returns the size of the files that Load read, external data included; 0 for other models.
  uint64_t file_bytes() const;
  int64_t ir_version() const;
  std::map<std::string, int64_t> OpsetImports() const;  // domain -> version
  void SetOpsetImport(const std::string& domain, int64_t version);
  std::map<std::string, std::string> Metadata() const;  // metadata_props of the model
  void SetMetadata(const std::string& key, const std::string& value);

  // Returns the nodes of the main graph, in topological order.
  std::vector<Node> Nodes() const;
  // Returns the nodes of the main graph and of bodies. Each body, in topological order, comes
  // before the node that it belongs to.
  std::vector<Node> AllNodes() const;
  // Returns the node in whose body a node stands; nothing for nodes of the main graph.
  std::optional<Node> Owner(const Node& node) const;
  bool AreInOneGraph(const Node& a, const Node& b) const;
  // Returns the values that bodies define, without constants.
  std::vector<BodyValue> BodyValues() const;
  // Inserts a node of one input and one output behind a value of a body. The node reads the value
  // under a new name, and its output has the old one, so that all readers read the output. `spec`
  // gives operator, node name and attributes. Returns whether a body has such a value.
  bool InsertBehindBodyValue(const std::string& value, const NodeSpec& spec);
  std::vector<std::string> InputNames() const;  // without initializers
  std::vector<std::string> OutputNames() const;
  bool IsInput(std::string_view value) const;
  // Returns whether it is an input of a body, such as the state that a Loop carries on.
  bool IsBodyInput(std::string_view value) const;
  bool IsOutput(std::string_view value) const;  // true for outputs of bodies, too
  bool IsInitializer(std::string_view value) const;
  std::optional<Node> Producer(std::string_view value) const;
  // Returns the node behind the definition of a value: the one behind its producer, or the first of
  // the graph; nothing behind the last one.
  std::optional<Node> NodeBehind(std::string_view value) const;
  // Returns the uses of a value in the graph that defines it.
  std::vector<Use> Uses(std::string_view value) const;
  // Returns the uses in that graph and in the bodies inside it.
  std::vector<Use> AllUses(std::string_view value) const;
  // Returns the use of a value that is the only one, in whatever graph; nothing if there are
  // others, or if the value is an output.
  std::optional<Use> OnlyUse(std::string_view value) const;
  // Returns whether a node reads a value, or it is an output.
  bool IsRead(std::string_view value) const;
  // Returns whether a node of the body of an If, Loop or Scan inside the graph that defines the
  // value reads it.
  bool IsUsedInSubgraph(std::string_view value) const;
  // Returns the known type and shape of any value, including inputs, outputs and initializers.
  ValueInfo InfoOf(std::string_view value) const;
  // Returns whether a value is known to be a sequence, a map or an optional value.
  bool IsNoTensor(std::string_view value) const;

  std::vector<std::string> InitializerNames() const;
  // Returns a view. Throws Error(kInvalidArgument) if there is none of that name, or a deferred
  // one.
  InitializerView Initializer(std::string_view name) const;
  // Adds or replaces an initializer, with `bytes` as in InitializerView. Throws
  // Error(kInvalidArgument) if type and dims want another number of bytes, or if the name is a
  // node's output or a graph input.
  void SetInitializer(const std::string& name, DataType type, std::span<const int64_t> dims,
                      std::span<const std::byte> bytes);
  void SetInitializer(const std::string& name, Tensor tensor);                    // copies no data
  void SetHeldInitializer(const std::string& name, const HeldInitializer& data);  // likewise
  void RemoveInitializer(std::string_view name);  // throws Error(kInvalidArgument) while it is used
  // Returns the data and their owner. Throws Error(kInvalidArgument) if there is none of that name,
  // or a deferred one.
  HeldInitializer HoldInitializer(std::string_view name) const;
  // Does as HeldInitializer::Release does.
  void ReleaseInitializer(std::string_view name) const;

  // Turn a constant into an input of the graph and back, so that others can work on the rest of a
  // model without its largest tensors. Nothing is copied. Throw Error(kInvalidArgument) if there is
  // none of that name; the second also if the input has another type or shape.
  void InitializerToInput(const std::string& name);
  void InputToInitializer(const std::string& name, const HeldInitializer& data);

  // Adds or replaces a group of initializers whose data are computed while the model is written,
  // one group at a time. All groups together may be larger than memory. `produce` runs once for
  // each writing, gives the same tensors each time, and must not touch the model. Its exceptions
  // leave Save and Serialize unchanged, and no file is left then. Throws as SetInitializer.
  void DeferInitializers(const std::vector<DeferredTensor>& tensors, TensorProducer produce);
  bool IsDeferred(std::string_view name) const;
  // Computes the deferred initializers now.
  void Materialize();

  // Inserts a node before `before`. Without it, the node comes last in the graph of `beside`, or in
  // the main graph. The caller keeps the order topological. Throws Error(kInvalidArgument) if an
  // output exists already.
  Node InsertNode(const NodeSpec& spec, std::optional<Node> before,
                  std::optional<Node> beside = std::nullopt);
  void RemoveNode(Node node);  // throws Error(kInvalidArgument) while an output is used
  // Replaces a node by one that gives the same outputs, whose readers and descriptions stay. The
  // new node has the name of the old one unless `spec` says another, its documentation and its
  // metadata.
  Node Replace(const Node& node, NodeSpec spec);
  // Replaces nodes by those that `insert` inserts, which may give the outputs of the old ones.
  // These stay in the model meanwhile, as places to insert at. The documentation and metadata of
  // each go to the new node of its name, or else to the one that gives its output, or else to the
  // first. Throws Error(kInvalidArgument) if nothing gives an output that is still used, and what
  // `insert` throws. The old nodes stay then.
  void Replace(const std::vector<Node>& nodes, const std::function<void()>& insert);
  // Makes the outputs of a node values that nothing gives, so that it can be removed before another
  // node or an initializer gives them.
  void ReleaseOutputs(const Node& node);
  // Lets every node that reads a value, in bodies too, read another one. An output of a graph stays
  // one.
  void ReplaceAllUses(const std::string& value, const std::string& by);
  // Gives what a node computes another name, which all readers follow, in bodies too. An output of
  // a graph keeps its name, which another node has to give then. Throws Error(kInvalidArgument) if
  // no node gives `value`, or `to` exists already.
  void Rename(const std::string& value, const std::string& to);
  // Makes a node's output an output of the graph. Throws Error(kInvalidArgument) if there is no
  // such value, it is one already, or a body's node produces it.
  void AddOutput(const std::string& value);
  // Makes a value no output of the graph any more. The value stays. Throws Error(kInvalidArgument)
  // if it is no output.
  void RemoveOutput(const std::string& value);
  // Returns a value name that is not taken: `wanted`, or `wanted` with the first free suffix _1,
  // _2,
  // ...
  std::string FreshName(std::string wanted) const;

  // Returns a name for a new node that no other node has, in the same way. ONNX Runtime refuses two
  // nodes of one name in a graph, and names are keys of plans (plan::NodeIndex).
  std::string FreshNodeName(std::string wanted) const;

  // Returns the functions of the model, as (domain, name).
  std::vector<std::pair<std::string, std::string>> Functions() const;
  bool HasFunction(std::string_view domain, std::string_view name) const;
  // Adds or replaces a function. Its operator sets become those of the model, which must import
  // them first. The IR version becomes 8 at least, the first with functions. Throws
  // Error(kInvalidArgument) if an operator set that the body needs is missing.
  void SetFunction(const FunctionSpec& spec);
  // Removes a function. Returns whether there was one.
  bool RemoveFunction(std::string_view domain, std::string_view name);

  // Describes the output of a node that inference cannot see through.
  void SetInfo(const std::string& value, const ValueInfo& info);
  // Gives an input or output of the graph another type and shape. The caller sees to it that its
  // readers take that, or its producer gives it. Throws Error(kInvalidArgument) if it is neither.
  void SetInterfaceInfo(const std::string& value, const ValueInfo& info);
  // Brings the model to a later version of the standard operator set. Each operator computes what
  // it did, as ONNX Runtime computes it; nodes keep their names, and what they read stays at its
  // place. Returns "", or the reason why that cannot be, which names a node; the model is as it was
  // then. A model of that version or a later one stays as it is. Node handles become invalid.
  // REQUIRES: shapes are inferred, as far as a Softmax before operator set 13 needs them.
  std::string RaiseOpset(int64_t version);
  // Fills in the types and shapes of values as far as ONNX's inference gets, through the operators
  // of com.amd.quark, com.vai.quantize and bitpress too. Never fails on what it cannot infer.
  void InferShapes();
  // Forgets what InferShapes found: the types and shapes of values that are neither inputs nor
  // outputs of the main graph or of a body.
  void DropDescriptions();
  // Runs ONNX's checker. Throws Error(kInvalidModel).
  void Check() const;
  // Does the same, and infers all types and shapes, which must agree with those that the model
  // states.
  void CheckInFull() const;
  // Returns a number that models of the same content share: nodes, values, constants and their
  // data.
  uint64_t Fingerprint() const;

 private:
  friend struct ModelAccess;
  explicit Model(std::unique_ptr<ModelImpl> impl);
  std::unique_ptr<ModelImpl> impl_;
};

// Loads a tensor file, an ONNX TensorProto (`.pb`). Throws Error(kIo), or Error(kInvalidArgument)
// if it is no tensor of numbers.
Tensor LoadTensorProto(const std::filesystem::path& path);

}  // namespace bitpress::graph
