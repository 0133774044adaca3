// The conversion of a model to another version of the standard operator set, by ONNX's converter.
#include <exception>
#include <set>
#include <utility>

#include "graph/model_impl.h"
#include "onnx/version_converter/convert.h"

namespace bitpress::graph {
namespace {

// Returns the first IR version that may hold the operator set (ONNX's table of versions). The
// converter leaves the IR version as it was.
int64_t IrVersionFor(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> kFirst[] = {{25, 12}, {23, 11}, {21, 10},
                                                    {19, 9},  {15, 8},  {12, 7}};
  for (const auto& [version, ir_version] : kFirst) {
    if (opset >= version) return ir_version;
  }
  return 4;
}

// Gives the stubs of the converted message the data of the initializers they stand for.
bool AdoptData(const ModelImpl& from, ModelImpl& to) {
  if (from.graph().initializer_size() != to.graph().initializer_size()) return false;
  for (auto& tensor : *to.mutable_graph().mutable_initializer()) {
    const ValueEntry* const original = from.Find(tensor.name());
    if (original == nullptr || original->initializer == nullptr) return false;
    tensor = *original->initializer;
    ValueEntry& entry = to.At(tensor.name());
    entry.initializer = &tensor;
    entry.storage = original->storage;
    entry.deferred = original->deferred;
    entry.index_in_group = original->index_in_group;
    if (entry.storage.owner == nullptr) {
      entry.storage.bytes = std::as_bytes(std::span<const char>(tensor.raw_data()));
    }
  }
  return true;
}

}  // namespace

bool Model::ConvertOpset(int64_t version) {
  const auto imports = OpsetImports();
  const auto standard = imports.find("");
  if (standard == imports.end() || standard->second > version) return false;
  if (standard->second == version) return true;
  if (impl_->proto.functions_size() > 0 || impl_->graph().sparse_initializer_size() > 0) {
    return false;
  }
  RegisterSchemas();
  auto converted = std::make_unique<ModelImpl>();
  converted->max_message_bytes = impl_->max_message_bytes;
  converted->origins = impl_->origins;
  try {
    converted->proto =
        onnx::version_conversion::ConvertVersion(impl_->proto, static_cast<int>(version));
  } catch (const std::exception&) {
    return false;
  }
  onnx::ModelProto& proto = converted->proto;
  if (proto.graph().node_size() == 0) return false;
  proto.set_ir_version(std::max(impl_->proto.ir_version(), IrVersionFor(version)));
  // The converter drops the metadata.
  *proto.mutable_metadata_props() = impl_->proto.metadata_props();
  if (!AdoptData(*impl_, *converted)) return false;
  converted->IndexGraph();
  try {
    converted->Check();
  } catch (const std::exception&) {
    return false;
  }
  impl_ = std::move(converted);
  return true;
}

}  // namespace bitpress::graph
