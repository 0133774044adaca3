// Initializers without data: those that are computed when the model is written, and those that are
// inputs for a while.
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {

std::vector<Tensor> DeferredGroup::Produce() const {
  std::vector<Tensor> produced = produce();
  bool fits = produced.size() == tensors.size();
  for (size_t i = 0; fits && i < tensors.size(); ++i) {
    const Tensor& tensor = produced[i];
    fits = tensor.type == tensors[i].type && tensor.dims == tensors[i].dims &&
           tensor.bytes.size() == NumBytes(tensor.type, tensor.num_elements());
  }
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument,
         "the data computed for initializer '{}' are not of the declared type and shape",
         tensors.front().name);
  }
  return produced;
}

void Model::DeferInitializers(const std::vector<DeferredTensor>& tensors, TensorProducer produce) {
  if (tensors.empty()) return;
  const auto group =
      std::make_shared<const DeferredGroup>(DeferredGroup{tensors, std::move(produce)});
  for (size_t i = 0; i < tensors.size(); ++i) {
    NumBytes(tensors[i].type, NumElements(tensors[i].dims));  // throws if it is no size
    ValueEntry& entry = impl_->ResetInitializer(tensors[i].name, tensors[i].type, tensors[i].dims);
    ModelImpl::MakeStub(*entry.initializer);
    entry.deferred = group;
    entry.index_in_group = i;
  }
}

bool Model::IsDeferred(std::string_view name) const {
  const ValueEntry* const entry = impl_->Find(name);
  return entry != nullptr && entry->deferred != nullptr;
}

void Model::Materialize() {
  for (const std::string& name : InitializerNames()) {
    const std::shared_ptr<const DeferredGroup> group = impl_->Find(name)->deferred;
    if (group == nullptr) continue;
    std::vector<Tensor> tensors = group->Produce();
    for (size_t i = 0; i < tensors.size(); ++i) {
      // Part of the group may have been replaced since.
      const std::string& part = group->tensors[i].name;
      const ValueEntry* const entry = impl_->Find(part);
      if (entry != nullptr && entry->deferred == group) SetInitializer(part, std::move(tensors[i]));
    }
  }
}

void Model::InitializerToInput(const std::string& name) {
  const HeldInitializer held = HoldInitializer(name);  // throws if there is none
  ValueEntry& entry = impl_->At(name);
  if (entry.is_graph_input) impl_->RemoveGraphInput(name);
  onnx::TensorProto* const tensor = entry.initializer;
  entry.initializer = nullptr;
  entry.storage = {};
  auto& tensors = *impl_->mutable_graph().mutable_initializer();
  for (int i = 0; i < tensors.size(); ++i) {
    if (&tensors.Get(i) != tensor) continue;
    tensors.DeleteSubrange(i, 1);
    break;
  }
  onnx::ValueInfoProto& input = *impl_->mutable_graph().add_input();
  input.set_name(name);
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(held.type));
  type.mutable_shape();
  for (const int64_t dim : held.dims) type.mutable_shape()->add_dim()->set_dim_value(dim);
  entry.input_info = &input;
  entry.is_graph_input = true;
}

void Model::InputToInitializer(const std::string& name, const HeldInitializer& data) {
  const ValueInfo info = InfoOf(name);
  bool fits = IsInput(name) && info.type == data.type && info.shape.size() == data.dims.size();
  for (size_t i = 0; fits && i < data.dims.size(); ++i) {
    fits = info.shape[i].value == data.dims[i];
  }
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "the model has no input '{}' of {} [{}]", name,
         DataTypeName(data.type), fmt::join(data.dims, ", "));
  }
  impl_->RemoveGraphInput(name);
  ValueEntry& entry = impl_->ResetInitializer(name, data.type, data.dims);
  ModelImpl::PlaceData(entry, {data.owner, data.bytes, data.is_mapped});
}

void Model::SetHeldInitializer(const std::string& name, const HeldInitializer& data) {
  BITPRESS_DCHECK(data.bytes.size() == NumBytes(data.type, NumElements(data.dims)));
  ValueEntry& entry = impl_->ResetInitializer(name, data.type, data.dims);
  ModelImpl::PlaceData(entry, {data.owner, data.bytes, data.is_mapped});
}

void HeldInitializer::Release() const { TensorStorage{owner, bytes, is_mapped}.Release(); }

void Model::ReleaseInitializer(std::string_view name) const { HoldInitializer(name).Release(); }

HeldInitializer Model::HoldInitializer(std::string_view name) const {
  const InitializerView view = Initializer(name);
  HeldInitializer held{view.type, {view.dims.begin(), view.dims.end()}, view.bytes, nullptr};
  held.owner = impl_->Find(name)->storage.owner;
  held.is_mapped = impl_->Find(name)->storage.is_mapped;
  if (held.owner == nullptr) {  // it is small and lies in the message
    const auto copy =
        std::make_shared<const std::vector<std::byte>>(view.bytes.begin(), view.bytes.end());
    held.bytes = *copy;
    held.owner = copy;
  }
  return held;
}

}  // namespace bitpress::graph
