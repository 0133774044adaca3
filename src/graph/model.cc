#include "graph/model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

void WriteType(const ValueInfo& info, onnx::TypeProto_Tensor& type) {
  type.set_elem_type(static_cast<int32_t>(info.type));
  type.clear_shape();
  if (!info.has_shape) return;
  auto& shape = *type.mutable_shape();
  for (const Dimension& dim : info.shape) {
    auto& entry = *shape.add_dim();
    if (dim.value >= 0) {
      entry.set_dim_value(dim.value);
    } else if (!dim.symbol.empty()) {
      entry.set_dim_param(dim.symbol);
    }
  }
}

// Returns `wanted`, or it with the first suffix that makes it no key of `taken`.
template <typename Map>
std::string FirstFree(std::string wanted, const Map& taken) {
  if (!taken.contains(wanted)) return wanted;
  for (size_t suffix = 1;; ++suffix) {
    std::string name = fmt::format("{}_{}", wanted, suffix);
    if (!taken.contains(name)) return name;
  }
}

}  // namespace

ValueInfo ToValueInfo(const onnx::TypeProto& type) {
  ValueInfo info;
  if (!type.has_tensor_type()) return info;
  const auto& tensor = type.tensor_type();
  info.type = static_cast<DataType>(tensor.elem_type());
  info.has_shape = tensor.has_shape();
  for (const auto& dim : tensor.shape().dim()) {
    info.shape.push_back({dim.has_dim_value() ? dim.dim_value() : -1, dim.dim_param()});
  }
  return info;
}

Model::Model(std::unique_ptr<ModelImpl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Model Model::Clone() const {
  auto copy = std::make_unique<ModelImpl>();
  copy->proto = impl_->proto;
  copy->max_message_bytes = impl_->max_message_bytes;
  copy->origins = impl_->origins;
  for (auto& tensor : *copy->mutable_graph().mutable_initializer()) {
    ValueEntry& entry = copy->At(tensor.name());
    entry.initializer = &tensor;
    if (IsExternal(tensor)) {
      const ValueEntry& original = *impl_->Find(tensor.name());
      entry.storage = original.storage;
      entry.deferred = original.deferred;
      entry.index_in_group = original.index_in_group;
    } else {
      entry.storage.bytes = std::as_bytes(std::span<const char>(tensor.raw_data()));
    }
  }
  copy->IndexGraph();
  return Model(std::move(copy));
}

uint64_t Model::file_bytes() const { return impl_->file_bytes; }

int64_t Model::ir_version() const { return impl_->proto.ir_version(); }

std::map<std::string, int64_t> Model::OpsetImports() const {
  std::map<std::string, int64_t> imports;
  for (const auto& import : impl_->proto.opset_import()) {
    imports[import.domain()] = import.version();
  }
  return imports;
}

void Model::SetOpsetImport(const std::string& domain, int64_t version) {
  bool is_known = false;
  for (auto& import : *impl_->proto.mutable_opset_import()) {
    if (import.domain() != domain) continue;
    import.set_version(version);
    is_known = true;
  }
  if (is_known) return;
  auto* import = impl_->proto.add_opset_import();
  import->set_domain(domain);
  import->set_version(version);
}

std::map<std::string, std::string> Model::Metadata() const {
  std::map<std::string, std::string> metadata;
  for (const auto& entry : impl_->proto.metadata_props()) metadata[entry.key()] = entry.value();
  return metadata;
}

void Model::SetMetadata(const std::string& key, const std::string& value) {
  for (auto& entry : *impl_->proto.mutable_metadata_props()) {
    if (entry.key() != key) continue;
    entry.set_value(value);
    return;
  }
  auto* entry = impl_->proto.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

std::vector<Node> Model::Nodes() const {
  std::vector<Node> nodes;
  const onnx::GraphProto& graph = impl_->graph();
  nodes.reserve(static_cast<size_t>(graph.node_size()));
  for (const onnx::NodeProto& node : graph.node()) {
    nodes.push_back(Node(const_cast<onnx::NodeProto*>(&node), impl_.get()));
  }
  return nodes;
}

std::vector<std::string> Model::InputNames() const {
  std::vector<std::string> names;
  for (const auto& input : impl_->graph().input()) {
    if (IsInput(input.name())) names.push_back(input.name());
  }
  return names;
}

std::vector<std::string> Model::OutputNames() const {
  std::vector<std::string> names;
  for (const auto& output : impl_->graph().output()) names.push_back(output.name());
  return names;
}

bool Model::IsInput(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && entry->is_graph_input && entry->initializer == nullptr;
}

bool Model::IsOutput(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && entry->IsOutput();
}

bool Model::IsInitializer(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && entry->initializer != nullptr;
}

std::optional<Node> Model::Producer(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr || entry->producer == nullptr) return std::nullopt;
  return Node(entry->producer, impl_.get());
}

bool Model::IsBodyInput(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && entry->is_body_input;
}

std::optional<Node> Model::NodeBehind(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr) return std::nullopt;
  const auto& nodes = (entry->body == nullptr ? impl_->graph() : *entry->body).node();
  int position = 0;
  if (entry->producer != nullptr) {
    const auto elements = nodes.pointer_begin();
    position = static_cast<int>(std::find(elements, elements + nodes.size(), entry->producer) -
                                elements + 1);
  }
  if (position >= nodes.size()) return std::nullopt;
  return Node(const_cast<onnx::NodeProto*>(&nodes.Get(position)), impl_.get());
}

std::vector<Use> Model::Uses(std::string_view value) const {
  std::vector<Use> uses = AllUses(value);
  if (uses.empty()) return uses;
  const onnx::GraphProto* const body = impl_->Find(value)->body;
  std::erase_if(uses, [&](const Use& use) { return impl_->BodyOf(use.node.proto_) != body; });
  return uses;
}

std::vector<Use> Model::AllUses(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  std::vector<Use> uses;
  if (entry == nullptr) return uses;
  for (const ValueUse& use : entry->uses) {
    uses.push_back({Node(use.node, impl_.get()), use.input_index});
  }
  return uses;
}

std::optional<Use> Model::OnlyUse(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr || entry->uses.size() != 1 || entry->IsOutput()) return std::nullopt;
  return Use{Node(entry->uses[0].node, impl_.get()), entry->uses[0].input_index};
}

bool Model::IsRead(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && entry->IsRead();
}

bool Model::IsUsedInSubgraph(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  return entry != nullptr && std::ranges::any_of(entry->uses, [&](const ValueUse& use) {
           return impl_->BodyOf(use.node) != entry->body;
         });
}

ValueInfo Model::InfoOf(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr) return {};
  if (entry->initializer != nullptr) {
    ValueInfo info{TypeOf(*entry->initializer), true, {}};
    for (const int64_t dim : entry->initializer->dims()) info.shape.push_back({dim, ""});
    return info;
  }
  return entry->info() == nullptr ? ValueInfo{} : ToValueInfo(entry->info()->type());
}

bool Model::IsNoTensor(std::string_view value) const {
  const ValueEntry* const entry = impl_->Find(value);
  if (entry == nullptr || entry->initializer != nullptr || entry->info() == nullptr) return false;
  const onnx::TypeProto& type = entry->info()->type();
  return type.value_case() != onnx::TypeProto::VALUE_NOT_SET && !type.has_tensor_type();
}

void Model::SetInfo(const std::string& value, const ValueInfo& info) {
  WriteType(info, *impl_->ListedInfo(value).mutable_type()->mutable_tensor_type());
}

void Model::SetInterfaceInfo(const std::string& value, const ValueInfo& info) {
  const auto is_named = [&](const auto& entry) { return entry.name() == value; };
  auto& inputs = *impl_->mutable_graph().mutable_input();
  auto& outputs = *impl_->mutable_graph().mutable_output();
  auto stated = std::ranges::find_if(inputs, is_named);
  if (stated == inputs.end()) stated = std::ranges::find_if(outputs, is_named);
  if (stated == outputs.end()) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is neither an input nor an output of the model", value);
  }
  WriteType(info, *stated->mutable_type()->mutable_tensor_type());
}

std::vector<std::string> Model::InitializerNames() const {
  std::vector<std::string> names;
  for (const auto& tensor : impl_->graph().initializer()) {
    names.push_back(tensor.name());
  }
  return names;
}

InitializerView Model::Initializer(std::string_view name) const {
  const ValueEntry* const entry = impl_->Find(name);
  if (entry == nullptr || entry->initializer == nullptr) {
    Fail(ErrorCode::kInvalidArgument, "the model has no initializer '{}'", name);
  }
  if (entry->deferred != nullptr) {
    Fail(ErrorCode::kInvalidArgument, "initializer '{}' is computed when the model is written",
         name);
  }
  return {TypeOf(*entry->initializer), DimsOf(*entry->initializer), entry->storage.bytes};
}

std::string Model::FreshName(std::string wanted) const {
  return FirstFree(std::move(wanted), impl_->values);
}

std::string Model::FreshNodeName(std::string wanted) const {
  return FirstFree(std::move(wanted), impl_->node_names);
}

void Model::Check() const { impl_->Check(); }

void Model::CheckInFull() const { impl_->Check(/*in_full=*/true); }

}  // namespace bitpress::graph
