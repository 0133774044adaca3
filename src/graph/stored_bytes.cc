#include "graph/stored_bytes.h"

#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/model_impl.h"
#include "graph/tensor_proto.h"
#include "onnx/onnx_pb.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;
using Locations = std::set<std::string>;

void Collect(const onnx::TensorProto& tensor, Locations& locations) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") locations.insert(entry.value());
  }
}

void Collect(const onnx::GraphProto& graph, Locations& locations);

void Collect(const onnx::NodeProto& node, Locations& locations) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_t()) Collect(attribute.t(), locations);
    for (const auto& tensor : attribute.tensors()) Collect(tensor, locations);
    if (attribute.has_g()) Collect(attribute.g(), locations);
    for (const auto& graph : attribute.graphs()) Collect(graph, locations);
  }
}

void Collect(const onnx::GraphProto& graph, Locations& locations) {
  for (const auto& tensor : graph.initializer()) Collect(tensor, locations);
  for (const auto& sparse : graph.sparse_initializer()) {
    Collect(sparse.values(), locations);
    Collect(sparse.indices(), locations);
  }
  for (const auto& node : graph.node()) Collect(node, locations);
}

uint64_t FileSize(const fs::path& path) {
  std::error_code code;
  const uint64_t size = fs::file_size(path, code);
  if (code) Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path), ErrorText(code));
  return size;
}

// Returns false if the file cannot be parsed.
bool ReadLocations(const fs::path& path, Locations& locations) {
  const google::protobuf::LogSilencer silencer;
  onnx::ModelProto model;
  std::ifstream file(SystemPath(path), std::ios::binary);
  if (!file || !model.ParseFromIstream(&file)) return false;
  Collect(model.graph(), locations);
  for (const auto& function : model.functions()) {
    for (const auto& node : function.node()) Collect(node, locations);
  }
  return true;
}

}  // namespace

uint64_t StoredBytes(const fs::path& path) {
  uint64_t bytes = FileSize(path);
  Locations locations;
  if (!ReadLocations(path, locations)) {
    Fail(ErrorCode::kInvalidModel, "'{}' is no ONNX model, or a damaged one", PathText(path));
  }
  for (const std::string& location : locations)
    bytes += FileSize(path.parent_path() / PathOf(location));
  return bytes;
}

StoredParts MeasureParts(const Model& model) {
  const ModelImpl& impl = ModelAccess::Impl(model);
  StoredParts parts;
  parts.all = impl.proto.ByteSizeLong();
  for (const auto& tensor : impl.graph().initializer()) {
    const ValueEntry* const entry = impl.Find(tensor.name());
    uint64_t num_outside = 0;  // bytes of data that are not in the message
    if (entry != nullptr && entry->deferred != nullptr) {
      num_outside = ExpectedBytes(tensor);
    } else if (entry != nullptr && IsExternal(tensor)) {
      num_outside = entry->storage.bytes.size();
    }
    const uint64_t num_bytes = tensor.ByteSizeLong() + num_outside;
    const size_t bits = ElementBits(static_cast<DataType>(tensor.data_type()));
    parts.constants += num_bytes;
    if (bits > 0 && bits <= 8) parts.codes += num_bytes;
    parts.all += num_outside;
  }
  for (const Node& node : model.AllNodes()) {
    if (node.op_type() != "Constant") continue;
    for (const auto& attribute : ModelAccess::Proto(node).attribute()) {
      parts.constants += attribute.ByteSizeLong();
    }
  }
  for (const auto& function : impl.proto.functions()) parts.functions += function.ByteSizeLong();
  for (const auto& entry : impl.proto.metadata_props()) parts.metadata += entry.ByteSizeLong();
  return parts;
}

std::set<std::string> ExternalLocations(const fs::path& path) {
  constexpr uintmax_t kMost = uintmax_t{256} << 20;
  std::error_code error;
  const uintmax_t num_bytes = fs::file_size(path, error);
  Locations locations;
  if (error || num_bytes > kMost || !ReadLocations(path, locations)) return {};
  return locations;
}

}  // namespace bitpress::graph
