#include "graph/extract.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/external_data.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

using NameViews = std::unordered_set<std::string_view>;

class Extraction {
 public:
  Extraction(const ModelImpl& source, std::span<const std::string> inputs,
             std::span<const std::string> outputs)
      : source_(source), inputs_(inputs), outputs_(outputs), cut_(inputs.begin(), inputs.end()) {}

  std::unique_ptr<ModelImpl> Run() {
    FindNodes();
    part_->proto.set_ir_version(source_.proto.ir_version());
    *part_->proto.mutable_opset_import() = source_.proto.opset_import();
    *part_->proto.mutable_functions() = source_.proto.functions();
    part_->mutable_graph().set_name(source_.graph().name());
    for (const onnx::NodeProto& node : source_.graph().node()) {
      if (nodes_.contains(&node)) *part_->mutable_graph().add_node() = node;
    }
    CopyInitializers();
    AddInputs();
    for (const onnx::ValueInfoProto& info : source_.graph().value_info()) {
      if (is_computed(info.name())) *part_->mutable_graph().add_value_info() = info;
    }
    for (const std::string& output : outputs_) {
      onnx::ValueInfoProto& proto = *part_->mutable_graph().add_output();
      proto.set_name(output);
      const ValueEntry& entry = *source_.Find(output);
      if (entry.info() != nullptr) *proto.mutable_type() = entry.info()->type();
    }
    part_->IndexGraph();
    return std::move(part_);
  }

 private:
  bool is_computed(std::string_view value) const {
    return read_.contains(value) && !cut_.contains(value);
  }

  // The walk goes backwards from the outputs.
  void FindNodes() {
    std::vector<std::string_view> pending(outputs_.begin(), outputs_.end());
    for (const std::string_view output : pending) {
      const ValueEntry* const entry = source_.Find(output);
      if (entry == nullptr || entry->producer == nullptr || cut_.contains(output)) {
        Fail(ErrorCode::kInvalidArgument, "'{}' is not computed in this part of the model", output);
      }
    }
    while (!pending.empty()) {
      const std::string_view value = pending.back();
      pending.pop_back();
      if (value.empty() || !read_.insert(value).second || cut_.contains(value)) continue;
      const ValueEntry* const entry = source_.Find(value);
      if (entry == nullptr || entry->producer == nullptr) continue;
      if (!nodes_.insert(entry->producer).second) continue;
      for (const std::string& input : entry->producer->input()) pending.push_back(input);
      for (const std::string_view captured : CapturedValues(*entry->producer)) {
        pending.push_back(captured);
      }
    }
  }

  void CopyInitializers() {
    for (const onnx::TensorProto& tensor : source_.graph().initializer()) {
      if (!is_computed(tensor.name())) continue;
      onnx::TensorProto& copy = *part_->mutable_graph().add_initializer();
      copy = tensor;
      ValueEntry& entry = part_->At(copy.name());
      entry.initializer = &copy;
      if (IsExternal(copy)) {
        const ValueEntry& original = *source_.Find(tensor.name());
        entry.storage = original.storage;
        entry.deferred = original.deferred;
        entry.index_in_group = original.index_in_group;
      } else {
        entry.storage.bytes = std::as_bytes(std::span<const char>(copy.raw_data()));
      }
    }
    for (const onnx::SparseTensorProto& tensor : source_.graph().sparse_initializer()) {
      if (is_computed(tensor.values().name()))
        *part_->mutable_graph().add_sparse_initializer() = tensor;
    }
  }

  void AddInputs() {
    for (const std::string& input : inputs_) AddInput(input);
    for (const onnx::ValueInfoProto& input : source_.graph().input()) {
      const bool is_constant = source_.Find(input.name())->initializer != nullptr;
      if (is_computed(input.name()) && !is_constant) *part_->mutable_graph().add_input() = input;
    }
  }

  void AddInput(const std::string& name) {
    const ValueEntry* const entry = source_.Find(name);
    if (entry == nullptr || entry->info() == nullptr || !entry->info()->type().has_tensor_type()) {
      Fail(ErrorCode::kUnsupported, "value '{}' is no tensor of known type", name);
    }
    onnx::ValueInfoProto& input = *part_->mutable_graph().add_input();
    input.set_name(name);
    *input.mutable_type() = entry->info()->type();
  }

  const ModelImpl& source_;
  std::span<const std::string> inputs_;
  std::span<const std::string> outputs_;
  NameViews cut_;
  NameViews read_;
  std::unordered_set<const onnx::NodeProto*> nodes_;
  std::unique_ptr<ModelImpl> part_ = std::make_unique<ModelImpl>();
};

}  // namespace

Model Extract(const Model& model, std::span<const std::string> inputs,
              std::span<const std::string> outputs) {
  return ModelAccess::Make(Extraction(ModelAccess::Impl(model), inputs, outputs).Run());
}

}  // namespace bitpress::graph
