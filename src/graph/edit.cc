// Changes to a model: nodes and initializers come and go, and the index with them.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

// Moves an element of a repeated field. The elements themselves stay where they are in memory.
template <typename Field>
void MoveElement(Field& field, int from, int to) {
  const auto elements = field.pointer_begin();
  if (from < to) {
    std::rotate(elements + from, elements + from + 1, elements + to + 1);
  } else {
    std::rotate(elements + to, elements + from, elements + from + 1);
  }
}

// Returns the position of an element, or the size of the field if the element is not in it.
template <typename Field, typename Element>
int PositionOf(Field& field, const Element* element) {
  const auto elements = field.pointer_begin();
  return static_cast<int>(std::find(elements, elements + field.size(), element) - elements);
}

template <typename Field, typename Element>
void RemoveElement(Field& field, const Element* element) {
  MoveElement(field, PositionOf(field, element), field.size() - 1);
  field.DeleteSubrange(field.size() - 1, 1);  // RemoveLast would keep its memory
}

// Throws if something but the nodes `old` reads an output of `node` that nothing gives.
void RequireGiven(const ModelImpl& impl, const onnx::NodeProto& node,
                  std::span<onnx::NodeProto* const> old) {
  for (const std::string& output : node.output()) {
    const ValueEntry* const entry = impl.Find(output);
    if (entry == nullptr || entry->IsDefined()) continue;
    const bool is_read =
        entry->IsOutput() || std::ranges::any_of(entry->uses, [&](const auto& use) {
          return std::ranges::find(old, use.node) == old.end();
        });
    if (is_read) {
      Fail(ErrorCode::kInvalidArgument, "cannot replace {}: nothing gives its output '{}'",
           DescribeNode(node), output);
    }
  }
}

// Undoes ModelImpl::ReleaseOutputs, but for outputs that another node gives now.
void TakeOutputsBack(ModelImpl& impl, onnx::NodeProto& node) {
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    ValueEntry& entry = impl.At(output);
    if (entry.IsDefined()) continue;
    entry.producer = &node;
    entry.body = impl.BodyOf(&node);
  }
}

// Gives the documentation and the metadata of a node to the one of `made` that stands for it.
void Bequeath(const onnx::NodeProto& old, std::span<onnx::NodeProto* const> made) {
  if (made.empty()) return;
  const auto has_name = [&](const onnx::NodeProto* node) {
    return !old.name().empty() && node->name() == old.name();
  };
  const auto gives = [&](const onnx::NodeProto* node) {
    return std::ranges::any_of(node->output(), [&](const std::string& output) {
      return !output.empty() && std::ranges::find(old.output(), output) != old.output().end();
    });
  };
  auto heir = std::ranges::find_if(made, has_name);
  if (heir == made.end()) heir = std::ranges::find_if(made, gives);
  onnx::NodeProto& to = heir == made.end() ? *made.front() : **heir;
  if (to.doc_string().empty() && !old.doc_string().empty()) to.set_doc_string(old.doc_string());
  for (const auto& entry : old.metadata_props()) {
    const bool is_known = std::ranges::any_of(
        to.metadata_props(), [&](const auto& known) { return known.key() == entry.key(); });
    if (!is_known) *to.add_metadata_props() = entry;
  }
}

}  // namespace

Node Model::InsertNode(const NodeSpec& spec, std::optional<Node> before,
                       std::optional<Node> beside) {
  if (before) beside = before;
  const BodyPlace place = beside ? impl_->PlaceOf(beside->proto_) : BodyPlace{};
  auto& nodes = *(place.graph == nullptr ? impl_->mutable_graph() : *place.graph).mutable_node();
  const int position = before ? PositionOf(nodes, before->proto_) : nodes.size();
  if (spec.op_type.empty() || (before && position == nodes.size())) {
    Fail(ErrorCode::kInvalidArgument, "cannot insert node '{}': {}", spec.name,
         spec.op_type.empty() ? "it has no operator type"
                              : "the node it shall stand before is not in the model");
  }
  for (const std::string& output : spec.outputs) {
    const ValueEntry* const entry = impl_->Find(output);
    if (entry != nullptr && entry->IsDefined()) {
      Fail(ErrorCode::kInvalidArgument, "cannot insert {} '{}': its output '{}' exists already",
           spec.op_type, spec.name, output);
    }
  }
  onnx::NodeProto& node = *nodes.Add();
  FillNode(spec, node);
  if (spec.attributes_of) {
    for (const onnx::AttributeProto& attribute : spec.attributes_of->proto_->attribute()) {
      const bool is_dropped = std::ranges::find(spec.dropped_attributes, attribute.name()) !=
                              spec.dropped_attributes.end();
      if (!is_dropped) *node.add_attribute() = attribute;
    }
  }
  MoveElement(nodes, nodes.size() - 1, position);
  impl_->IndexNode(node, place);
  if (impl_->inserted != nullptr) impl_->inserted->push_back(&node);
  return Node(&node, impl_.get());
}

void Model::RemoveNode(Node node) {
  onnx::GraphProto* const body = impl_->PlaceOf(node.proto_).graph;
  auto& nodes = *(body == nullptr ? impl_->mutable_graph() : *body).mutable_node();
  if (PositionOf(nodes, node.proto_) == nodes.size()) {
    Fail(ErrorCode::kInvalidArgument, "cannot remove a node that is not in the model");
  }
  for (const std::string& output : node.proto_->output()) {
    const ValueEntry* const entry = impl_->Find(output);
    if (entry != nullptr && entry->producer == node.proto_ && entry->IsRead()) {
      Fail(ErrorCode::kInvalidArgument, "cannot remove {}: its output '{}' is still used",
           node.Describe(), output);
    }
  }
  impl_->UnindexNode(*node.proto_);
  if (impl_->inserted != nullptr) std::erase(*impl_->inserted, node.proto_);
  RemoveElement(nodes, node.proto_);
}

Node Model::Replace(const Node& node, NodeSpec spec) {
  if (spec.name.empty()) spec.name = node.name();
  spec.outputs = {node.proto_->output().begin(), node.proto_->output().end()};
  std::optional<Node> made;
  Replace({node}, [&] { made = InsertNode(spec, node); });
  return *made;
}

void Model::Replace(const std::vector<Node>& nodes, const std::function<void()>& insert) {
  std::vector<onnx::NodeProto*> old;
  for (const Node& node : nodes) old.push_back(node.proto_);
  std::vector<onnx::NodeProto*> made;
  for (const onnx::NodeProto* const node : old) impl_->ReleaseOutputs(*node);
  std::vector<onnx::NodeProto*>* const around = std::exchange(impl_->inserted, &made);
  try {
    insert();
    for (const onnx::NodeProto* const node : old) RequireGiven(*impl_, *node, old);
  } catch (...) {
    impl_->inserted = around;
    for (onnx::NodeProto* const node : old) TakeOutputsBack(*impl_, *node);
    throw;
  }
  impl_->inserted = around;
  if (around != nullptr) around->insert(around->end(), made.begin(), made.end());
  for (const onnx::NodeProto* const node : old) Bequeath(*node, made);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) RemoveNode(*node);
}

void Model::ReleaseOutputs(const Node& node) { impl_->ReleaseOutputs(*node.proto_); }

void Model::ReplaceAllUses(const std::string& value, const std::string& by) {
  const std::string now = by;  // may lie in one of the nodes
  for (Use use : AllUses(value)) use.node.set_input(use.input_index, now);
}

void Model::Rename(const std::string& value, const std::string& to) {
  const std::string from = value;  // may lie in the node
  std::optional<Node> producer = Producer(from);
  if (!producer) Fail(ErrorCode::kInvalidArgument, "cannot rename '{}': no node gives it", from);
  size_t i = 0;
  while (producer->output(i) != from) ++i;
  producer->set_output(i, to);
  ReplaceAllUses(from, to);
}

void Model::AddOutput(const std::string& value) {
  const ValueEntry* const known = impl_->Find(value);
  if (known == nullptr || known->producer == nullptr || known->IsOutput()) {
    Fail(ErrorCode::kInvalidArgument, "cannot make '{}' an output: {}", value,
         known != nullptr && known->IsOutput() ? "it is one already" : "no node produces it");
  }
  if (impl_->BodyOf(known->producer) != nullptr) {
    Fail(ErrorCode::kInvalidArgument,
         "cannot make '{}' an output: a body produces it, and the graph around it does not see it",
         value);
  }
  ValueEntry& entry = impl_->At(value);
  onnx::ValueInfoProto& output = *impl_->mutable_graph().add_output();
  output.set_name(value);
  ++entry.num_outputs;
  if (entry.info() == nullptr) return;
  *output.mutable_type() = entry.info()->type();
  entry.output_info = &output;
}

void Model::RemoveOutput(const std::string& value) {
  auto& outputs = *impl_->mutable_graph().mutable_output();
  const auto found =
      std::ranges::find(outputs, value, [](const auto& output) { return output.name(); });
  if (found == outputs.end()) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is no output of the model", value);
  }
  ValueEntry& entry = impl_->At(value);
  --entry.num_outputs;
  if (entry.output_info == &*found) entry.output_info = nullptr;
  if (entry.producer != nullptr && found->has_type()) impl_->ListedInfo(value).Swap(&*found);
  outputs.erase(found);
}

void Model::SetInitializer(const std::string& name, DataType type, std::span<const int64_t> dims,
                           std::span<const std::byte> bytes) {
  SetInitializer(name, Tensor{type, {dims.begin(), dims.end()}, {bytes.begin(), bytes.end()}});
}

void Model::SetInitializer(const std::string& name, Tensor tensor) {
  const uint64_t expected = NumBytes(tensor.type, tensor.num_elements());
  if (tensor.bytes.size() != expected) {
    Fail(ErrorCode::kInvalidArgument, "cannot set initializer '{}': {} [{}] takes {} bytes, not {}",
         name, DataTypeName(tensor.type), fmt::join(tensor.dims, ", "), expected,
         tensor.bytes.size());
  }
  ValueEntry& entry = impl_->ResetInitializer(name, tensor.type, tensor.dims);
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(tensor.bytes));
  ModelImpl::PlaceData(entry, {owner, *owner});
}

void Model::RemoveInitializer(std::string_view name) {
  const ValueEntry* const entry = impl_->Find(name);
  if (entry == nullptr || entry->initializer == nullptr || entry->IsRead()) {
    Fail(ErrorCode::kInvalidArgument, "cannot remove initializer '{}': {}", name,
         entry == nullptr || entry->initializer == nullptr ? "the model has none of that name"
                                                           : "it is still used");
  }
  onnx::TensorProto* const tensor = entry->initializer;
  const bool is_graph_input = entry->is_graph_input;
  ValueEntry& mutable_entry = impl_->values.find(name)->second;
  mutable_entry.initializer = nullptr;
  mutable_entry.storage = {};
  mutable_entry.deferred = nullptr;
  if (is_graph_input) impl_->RemoveGraphInput(name);
  impl_->DropIfUnknown(name);
  RemoveElement(*impl_->mutable_graph().mutable_initializer(), tensor);
}

}  // namespace bitpress::graph
