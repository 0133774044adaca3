#include "graph/clean_up.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

bool IsDead(const ModelImpl& impl, const onnx::NodeProto& node) {
  if (node.output().empty()) return false;
  return std::ranges::none_of(node.output(), [&](const std::string& output) {
    const ValueEntry* const entry = impl.Find(output);
    return entry != nullptr && entry->IsRead();
  });
}

// Removes the elements for which `is_unused` holds. Returns their number.
template <typename Field, typename Predicate>
size_t RemoveIf(Field& field, const Predicate& is_unused) {
  const auto end = std::remove_if(field.begin(), field.end(), is_unused);
  const auto num_removed = static_cast<size_t>(field.end() - end);
  field.erase(end, field.end());
  return num_removed;
}

// Removes dead nodes, including those in bodies.
size_t RemoveDeadNodes(ModelImpl& impl, onnx::GraphProto& graph) {
  auto& nodes = *graph.mutable_node();
  std::unordered_set<const onnx::NodeProto*> dead;
  size_t num_removed = 0;
  // The loop goes backwards, because nodes that only dead nodes read are dead too.
  for (int i = nodes.size() - 1; i >= 0; --i) {
    onnx::NodeProto& node = *nodes.Mutable(i);
    if (IsDead(impl, node)) {
      dead.insert(&node);
      impl.UnindexNode(node);
    } else {
      ForEachOwnBody(node,
                     [&](onnx::GraphProto& body) { num_removed += RemoveDeadNodes(impl, body); });
    }
  }
  ModelImpl::RemoveNodes(graph, dead);
  return num_removed + dead.size();
}

size_t RemoveUnusedInitializers(Model& model) {
  const ModelImpl& impl = ModelAccess::Impl(model);
  size_t num_removed = 0;
  for (const std::string& name : model.InitializerNames()) {
    if (impl.Find(name)->IsRead()) continue;
    model.RemoveInitializer(name);
    ++num_removed;
  }
  return num_removed;
}

void CollectDomains(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                    std::set<std::string>& domains) {
  for (const auto& node : nodes) {
    domains.insert(node.domain());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) CollectDomains(attribute.g().node(), domains);
      for (const auto& body : attribute.graphs()) CollectDomains(body.node(), domains);
    }
  }
}

size_t RemoveUnusedImports(onnx::ModelProto& proto) {
  std::set<std::string> domains{""};
  CollectDomains(proto.graph().node(), domains);
  for (const auto& function : proto.functions()) {
    domains.insert(function.domain());
    CollectDomains(function.node(), domains);
  }
  for (const auto& training : proto.training_info()) {
    CollectDomains(training.algorithm().node(), domains);
    CollectDomains(training.initialization().node(), domains);
  }
  return RemoveIf(*proto.mutable_opset_import(), [&](const onnx::OperatorSetIdProto& import) {
    return !domains.contains(import.domain());
  });
}

size_t RemoveStaleInfo(ModelImpl& impl) {
  const size_t num_removed =
      RemoveIf(*impl.mutable_graph().mutable_value_info(), [&](const onnx::ValueInfoProto& info) {
        const ValueEntry* const entry = impl.Find(info.name());
        return entry == nullptr || !entry->IsDefined();
      });
  if (num_removed > 0) impl.IndexInfo();
  return num_removed;
}

// Takes the value of a Constant node as a tensor. Returns false if it is sparse.
bool TakeConstant(onnx::NodeProto& node, onnx::TensorProto& tensor) {
  if (node.attribute_size() != 1) return false;
  onnx::AttributeProto& attribute = *node.mutable_attribute(0);
  const std::string& name = attribute.name();
  if (name == "value" && attribute.has_t()) {
    tensor.Swap(attribute.mutable_t());
  } else if (name == "value_float" || name == "value_floats") {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    if (name == "value_float") tensor.add_float_data(attribute.f());
    tensor.mutable_float_data()->MergeFrom(attribute.floats());
    if (name == "value_floats") tensor.add_dims(attribute.floats_size());
  } else if (name == "value_int" || name == "value_ints") {
    tensor.set_data_type(onnx::TensorProto::INT64);
    if (name == "value_int") tensor.add_int64_data(attribute.i());
    tensor.mutable_int64_data()->MergeFrom(attribute.ints());
    if (name == "value_ints") tensor.add_dims(attribute.ints_size());
  } else if (name == "value_string" || name == "value_strings") {
    tensor.set_data_type(onnx::TensorProto::STRING);
    if (name == "value_string") tensor.add_string_data(attribute.s());
    tensor.mutable_string_data()->MergeFrom(attribute.strings());
    if (name == "value_strings") tensor.add_dims(attribute.strings_size());
  } else {
    return false;
  }
  return true;
}

bool MayBeWeight(const onnx::TensorProto& tensor) {
  const int32_t type = tensor.data_type();
  return (type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16) &&
         tensor.dims_size() > 0 && !IsExternal(tensor);
}

bool HoldsWeight(const onnx::NodeProto& node) {
  if (node.op_type() != "Constant" || !node.domain().empty()) return false;
  if (node.output_size() != 1 || node.attribute_size() != 1) return false;
  const onnx::AttributeProto& attribute = node.attribute(0);
  return attribute.name() == "value_floats" ||
         (attribute.name() == "value" && attribute.has_t() && MayBeWeight(attribute.t()));
}

// The states of one Loop. Its inputs are the number of rounds, a condition and the states; those of
// the body are the round, the condition and the states. The body gives a condition, the states and
// further outputs.
class LoopStates {
 public:
  LoopStates(Model& model, const Node& loop)
      : model_(model), impl_(ModelAccess::Impl(model)), proto_(ModelAccess::Proto(loop)) {
    for (auto& attribute : *proto_.mutable_attribute()) {
      if (attribute.name() == "body") body_ = attribute.mutable_g();
    }
  }

  // Returns the number of states that were constants.
  size_t Take() {
    const int num_states = proto_.input_size() - kFirstInput;
    if (body_ == nullptr || body_->input_size() != proto_.input_size() ||
        body_->output_size() < num_states + kFirstOutput) {
      return 0;
    }
    std::vector<int> taken;
    for (int state = 0; state < num_states; ++state) {
      if (!IsConstant(state)) continue;
      const std::string& constant = proto_.input(state + kFirstInput);
      model_.ReplaceAllUses(body_->input(state + kFirstInput).name(), constant);
      if (state < proto_.output_size()) model_.ReplaceAllUses(proto_.output(state), constant);
      taken.push_back(state);
    }
    if (taken.empty()) return 0;
    const BodyPlace place = impl_.PlaceOf(&proto_);
    impl_.UnindexNode(proto_);
    std::ranges::reverse(taken);
    for (const int state : taken) {
      proto_.mutable_input()->DeleteSubrange(state + kFirstInput, 1);
      if (state < proto_.output_size()) proto_.mutable_output()->DeleteSubrange(state, 1);
      body_->mutable_input()->DeleteSubrange(state + kFirstInput, 1);
      body_->mutable_output()->DeleteSubrange(state + kFirstOutput, 1);
    }
    impl_.IndexNode(proto_, place);
    return taken.size();
  }

 private:
  static constexpr int kFirstInput = 2;   // of the states
  static constexpr int kFirstOutput = 1;  // of the states, among those of the body

  bool IsConstant(int state) const {
    const std::string& inside = body_->input(state + kFirstInput).name();
    if (!model_.IsInitializer(proto_.input(state + kFirstInput)) ||
        body_->output(state + kFirstOutput).name() != inside ||
        impl_.Find(inside)->num_outputs != 1) {
      return false;
    }
    const bool has_output = state < proto_.output_size() && !proto_.output(state).empty();
    return !has_output || !impl_.Find(proto_.output(state))->IsOutput();
  }

  Model& model_;
  ModelImpl& impl_;
  onnx::NodeProto& proto_;
  onnx::GraphProto* body_ = nullptr;
};

// The pass that takes tensors of bodies over into the main graph.
class ConstantLifter {
 public:
  explicit ConstantLifter(Model& model) : model_(model), impl_(ModelAccess::Impl(model)) {}

  size_t Run() {
    for (const Node& node : model_.AllNodes()) {
      onnx::NodeProto& proto = ModelAccess::Proto(node);
      if (!model_.Owner(node) || !HoldsWeight(proto) || IsOutput(node.output(0))) continue;
      const std::string name = node.output(0);
      onnx::TensorProto tensor;
      TakeConstant(proto, tensor);
      model_.ReleaseOutputs(node);
      model_.RemoveNode(node);
      Adopt(name, tensor);
    }
    ForEachBody(*impl_.mutable_graph().mutable_node(), [&](onnx::GraphProto& body) {
      const auto is_lifted = [&](const onnx::TensorProto& tensor) {
        const ValueEntry& entry = *impl_.Find(tensor.name());
        return !entry.IsOutput() && !entry.is_body_input && MayBeWeight(tensor);
      };
      std::vector<onnx::TensorProto> lifted;
      for (const onnx::TensorProto& tensor : body.initializer()) {
        if (is_lifted(tensor)) lifted.push_back(tensor);
      }
      RemoveIf(*body.mutable_initializer(), is_lifted);
      for (onnx::TensorProto& tensor : lifted) {
        const std::string name = tensor.name();
        impl_.At(name).is_body_initializer = false;
        Adopt(name, tensor);
      }
    });
    return num_lifted_;
  }

 private:
  bool IsOutput(const std::string& name) const { return impl_.Find(name)->IsOutput(); }

  static size_t HashOf(const InitializerView& tensor) {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  }

  void Adopt(const std::string& name, onnx::TensorProto& tensor) {
    if (num_lifted_++ == 0) {
      for (const std::string& known : model_.InitializerNames()) {
        if (!model_.IsDeferred(known)) known_.emplace(HashOf(model_.Initializer(known)), known);
      }
    }
    tensor.set_name(name);
    impl_.At(name).body = nullptr;
    onnx::TensorProto& initializer = *impl_.mutable_graph().add_initializer();
    initializer.Swap(&tensor);
    impl_.AdoptInitializer(initializer);
    const InitializerView view = model_.Initializer(name);
    const size_t hash = HashOf(view);
    const auto [begin, end] = known_.equal_range(hash);
    for (auto known = begin; known != end; ++known) {
      const InitializerView other = model_.Initializer(known->second);
      if (other.type != view.type || !std::ranges::equal(other.dims, view.dims) ||
          !std::ranges::equal(other.bytes, view.bytes)) {
        continue;
      }
      model_.ReplaceAllUses(name, known->second);
      model_.RemoveInitializer(name);
      return;
    }
    known_.emplace(hash, name);
  }

  Model& model_;
  ModelImpl& impl_;
  std::multimap<size_t, std::string> known_;
  size_t num_lifted_ = 0;
};

}  // namespace

size_t TakeConstantsOutOfLoops(Model& model) {
  size_t num_taken = 0;
  for (const Node& node : model.AllNodes()) {
    if (node.op_type() == "Loop" && node.domain().empty())
      num_taken += LoopStates(model, node).Take();
  }
  return num_taken;
}

size_t LiftBodyConstants(Model& model) { return ConstantLifter(model).Run(); }

std::vector<std::string> FixInitializers(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  std::vector<std::string> names;
  for (const auto& input : impl.graph().input()) {
    if (model.IsInitializer(input.name())) names.push_back(input.name());
  }
  for (const std::string& name : names) impl.RemoveGraphInput(name);
  return names;
}

size_t TrimInputs(Model& model) {
  size_t num_changed = 0;
  for (const Node& node : model.AllNodes()) {
    auto& inputs = *ModelAccess::Proto(node).mutable_input();
    const int before = inputs.size();
    while (!inputs.empty() && inputs[inputs.size() - 1].empty()) inputs.RemoveLast();
    if (inputs.size() != before) ++num_changed;
  }
  return num_changed;
}

size_t NameNodes(Model& model) {
  std::unordered_set<std::string> taken;
  std::vector<Node> unnamed;
  for (const Node& node : model.AllNodes()) {
    if (node.name().empty() || !taken.insert(node.name()).second) unnamed.push_back(node);
  }
  for (const Node& node : unnamed) {
    std::string base = node.op_type();
    for (size_t i = node.num_outputs(); i-- > 0;) {
      if (!node.output(i).empty()) base = node.output(i);
    }
    std::string name = base;
    for (size_t number = 2; !taken.insert(name).second; ++number) {
      name = base + "_" + std::to_string(number);
    }
    ModelAccess::Proto(node).set_name(name);
  }
  return unnamed.size();
}

size_t RemoveUnusedButNodes(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  size_t num_removed = RemoveUnusedInitializers(model);
  num_removed += RemoveUnusedImports(impl.proto);
  num_removed += RemoveStaleInfo(impl);
  return num_removed;
}

size_t RemoveUnused(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  const size_t num_nodes = RemoveDeadNodes(impl, impl.mutable_graph());
  return num_nodes + RemoveUnusedButNodes(model);
}

size_t ConstantsToInitializers(Model& model) {
  ModelImpl& impl = ModelAccess::Impl(model);
  auto& nodes = *impl.mutable_graph().mutable_node();
  std::unordered_set<const onnx::NodeProto*> converted;
  for (onnx::NodeProto& node : nodes) {
    if (node.op_type() != "Constant" || !node.domain().empty() || node.output_size() != 1 ||
        impl.Find(node.output(0))->IsOutput()) {
      continue;
    }
    const std::string name = node.output(0);
    onnx::TensorProto tensor;
    if (!TakeConstant(node, tensor)) continue;
    tensor.set_name(name);
    impl.At(name).producer = nullptr;
    onnx::TensorProto& initializer = *impl.mutable_graph().add_initializer();
    initializer.Swap(&tensor);
    impl.AdoptInitializer(initializer);
    converted.insert(&node);
  }
  ModelImpl::RemoveNodes(impl.mutable_graph(), converted);
  return converted.size();
}

size_t RemoveAddedAttributes(const Model& given, Model& model) {
  const auto key_of = [](const Node& node) {
    std::string key;
    for (size_t i = 0; i < node.num_outputs() && key.empty(); ++i) key = node.output(i);
    return key;
  };
  std::map<std::string, Node> known;
  for (const Node& node : given.AllNodes()) {
    if (!node.domain().empty()) known.emplace(key_of(node), node);
  }
  size_t num_removed = 0;
  for (Node node : model.AllNodes()) {
    const auto before = known.find(key_of(node));
    if (before == known.end() || before->second.op_type() != node.op_type() ||
        before->second.domain() != node.domain()) {
      continue;
    }
    for (const std::string& name : node.AttributeNames()) {
      if (before->second.HasAttribute(name)) continue;
      node.RemoveAttribute(name);
      ++num_removed;
    }
  }
  return num_removed;
}

}  // namespace bitpress::graph
