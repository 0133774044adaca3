// The loading of a model, from bytes to a checked model: parse, bring to one form, verify the data
// of every tensor, sort, check, index.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"
#include "base/text.h"
#include "base/version.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/model_impl.h"
#include "graph/onnx_error.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;
namespace io = google::protobuf::io;

constexpr const char* kStandardDomainAlias = "ai.onnx";

template <typename Function>
void ForEachTensor(onnx::SparseTensorProto& sparse, const Function& function) {
  if (sparse.has_values()) function(*sparse.mutable_values());
  if (sparse.has_indices()) function(*sparse.mutable_indices());
}

template <typename Function>
void ForEachTensor(onnx::NodeProto& node, const Function& function);

// Calls the function for the tensors of a body. The caller treats those of the main graph's own
// initializers.
template <typename Function>
void ForEachTensor(onnx::GraphProto& graph, bool with_initializers, const Function& function) {
  if (with_initializers) {
    for (auto& tensor : *graph.mutable_initializer()) function(tensor);
  }
  for (auto& sparse : *graph.mutable_sparse_initializer()) ForEachTensor(sparse, function);
  for (auto& node : *graph.mutable_node()) ForEachTensor(node, function);
}

template <typename Function>
void ForEachTensor(onnx::NodeProto& node, const Function& function) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) function(*attribute.mutable_t());
    for (auto& tensor : *attribute.mutable_tensors()) function(tensor);
    if (attribute.has_sparse_tensor()) ForEachTensor(*attribute.mutable_sparse_tensor(), function);
    for (auto& sparse : *attribute.mutable_sparse_tensors()) ForEachTensor(sparse, function);
    if (attribute.has_g()) ForEachTensor(*attribute.mutable_g(), true, function);
    for (auto& body : *attribute.mutable_graphs()) ForEachTensor(body, true, function);
  }
}

void RequireGraph(const onnx::ModelProto& proto) {
  const char* missing = !proto.has_graph()               ? "graph"
                        : proto.graph().node_size() == 0 ? "nodes"
                        : proto.opset_import_size() == 0 ? "opset imports"
                                                         : nullptr;
  if (missing != nullptr) {
    Fail(ErrorCode::kInvalidModel, "the model has no {}; it is empty, truncated or not ONNX",
         missing);
  }
}

// Throws if a newer Bitpress wrote the model: read as one of an older version, it could give other
// numbers. (The import of the domain `bitpress` does not tell. ONNX Runtime makes it 1000 in models
// that it saves.)
void RefuseNewerVersion(const onnx::ModelProto& proto) {
  for (const auto& entry : proto.metadata_props()) {
    if (entry.key() != kModelFormatMetadata) continue;
    CheckFormatVersion(kModelFormatMetadata, ParseInt(entry.value(), kModelFormatMetadata),
                       kModelFormatVersion);
  }
}

// Replaces "ai.onnx", another word for the standard domain "".
void UseOneStandardDomain(onnx::ModelProto& proto) {
  const auto rename_node = [](onnx::NodeProto& node) {
    if (node.domain() == kStandardDomainAlias) node.clear_domain();
  };
  const auto rename_import = [](onnx::OperatorSetIdProto& import) {
    if (import.domain() == kStandardDomainAlias) import.set_domain("");
  };
  ForEachNode(*proto.mutable_graph()->mutable_node(), rename_node);
  for (auto& import : *proto.mutable_opset_import()) rename_import(import);
  for (auto& function : *proto.mutable_functions()) {
    ForEachNode(*function.mutable_node(), rename_node);
    for (auto& import : *function.mutable_opset_import()) rename_import(import);
  }
}

// Raises the IR version to 4. Before it, initializers had to be listed as inputs, without being
// any. From then on a caller may set such an input, so they are taken out of the inputs.
void RaiseIrVersion(onnx::ModelProto& proto) {
  constexpr int64_t kFirstWithFreeInitializers = 4;
  if (proto.ir_version() < 1 || proto.ir_version() >= kFirstWithFreeInitializers) return;
  proto.set_ir_version(kFirstWithFreeInitializers);
  std::unordered_set<std::string_view> constants;
  for (const auto& tensor : proto.graph().initializer()) constants.insert(tensor.name());
  auto& inputs = *proto.mutable_graph()->mutable_input();
  const auto end = std::remove_if(inputs.begin(), inputs.end(), [&](const auto& input) {
    return constants.contains(input.name());
  });
  inputs.erase(end, inputs.end());
}

// Verifies the tensors that are no initializers of the graph. They are few and small, so external
// ones are read in.
void VerifyInnerTensors(onnx::ModelProto& proto, ExternalDataReader& reader) {
  const auto verify = [&](onnx::TensorProto& tensor) {
    if (!IsExternal(tensor)) return CheckTensorData(tensor);
    const TensorStorage storage = reader.Read(tensor);
    tensor.clear_external_data();
    tensor.clear_data_location();
    tensor.set_raw_data(storage.bytes.data(), storage.bytes.size());
  };
  ForEachTensor(*proto.mutable_graph(), false, verify);
  for (auto& function : *proto.mutable_functions()) {
    for (auto& node : *function.mutable_node()) ForEachTensor(node, verify);
  }
}

// Makes the indices of a sparse tensor INT64, as ONNX wants them. ONNX Runtime writes them in the
// smallest type that holds them, into models that it optimizes.
void WidenIndices(onnx::SparseTensorProto& sparse) {
  if (!sparse.has_indices()) return;
  onnx::TensorProto& indices = *sparse.mutable_indices();
  MoveToRawData(indices);
  std::vector<int64_t> wide;
  const auto widen = [&]<typename T>(T) {
    const std::string& raw = indices.raw_data();
    for (size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T)) {
      T index;
      std::memcpy(&index, raw.data() + at, sizeof(T));
      wide.push_back(index);
    }
  };
  switch (TypeOf(indices)) {
    case DataType::kInt8:
      widen(int8_t{});
      break;
    case DataType::kInt16:
      widen(int16_t{});
      break;
    case DataType::kInt32:
      widen(int32_t{});
      break;
    default:
      return;
  }
  indices.set_data_type(onnx::TensorProto::INT64);
  indices.set_raw_data(wide.data(), wide.size() * sizeof(int64_t));
}

// Throws if bytes begin as a model in ONNX Runtime's own format, which protobuf would call damaged.
void RefuseOrtFormat(std::string_view begin) {
  constexpr std::string_view kIdentifier = "ORTM";  // of a FlatBuffer, behind its first offset
  if (begin.substr(std::min<size_t>(4, begin.size()), 4) != kIdentifier) return;
  Fail(ErrorCode::kUnsupported,
       "it is a model in ONNX Runtime's own format (.ort), optimized for one version of it; give "
       "the .onnx file that it was made of");
}

// Returns the first bytes of a stream, which are read again then.
std::string BeginOf(io::ZeroCopyInputStream& stream) {
  const void* data = nullptr;
  int size = 0;
  if (!stream.Next(&data, &size)) return "";
  stream.BackUp(size);
  return std::string(static_cast<const char*>(data), static_cast<size_t>(std::min(size, 8)));
}

std::unique_ptr<ModelImpl> Build(io::ZeroCopyInputStream& stream, const fs::path& folder) {
  // Damaged input is reported by an exception, not on the standard error output.
  const google::protobuf::LogSilencer silencer;
  auto impl = std::make_unique<ModelImpl>();
  onnx::ModelProto& proto = impl->proto;
  if (!proto.ParseFromZeroCopyStream(&stream)) {
    Fail(ErrorCode::kInvalidModel, "not an ONNX model, or damaged or truncated");
  }
  RequireGraph(proto);
  RefuseNewerVersion(proto);
  UseOneStandardDomain(proto);
  RaiseIrVersion(proto);
  ExternalDataReader reader(folder);
  for (auto& tensor : *impl->mutable_graph().mutable_initializer())
    impl->AdoptInitializer(tensor, &reader);
  VerifyInnerTensors(proto, reader);
  for (auto& sparse : *impl->mutable_graph().mutable_sparse_initializer()) WidenIndices(sparse);
  SortNodes(impl->mutable_graph());
  RemoveUnknownTypes(impl->mutable_graph());
  impl->Check();
  MakeNamesUnique(impl->mutable_graph());
  impl->IndexGraph();
  impl->file_bytes = reader.file_bytes();
  return impl;
}

// The file as protobuf reads it, which does not hand on why it ends.
struct FileStream : io::CopyingInputStream {
  SystemFile file;
  std::error_code error;

  int Read(void* buffer, int size) override {
    const size_t count = file.Read(buffer, static_cast<size_t>(size), error);
    return error ? -1 : static_cast<int>(count);
  }
};

}  // namespace

Model Model::Load(const fs::path& path) {
  const auto fail = [&](std::string_view why) {
    Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path), why);
  };
  FileStream file;
  file.file = SystemFile(path, SystemFile::Use::kRead, file.error);
  if (file.error) fail(ErrorText(file.error));
  if (file.file.kind() == SystemFile::Kind::kFolder) fail("it is a folder");
  const uint64_t num_bytes = file.file.num_bytes();
  return WithContext(fmt::format("model '{}'", PathText(path)), [&] {
    constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
    if (num_bytes > kMost) {
      Fail(ErrorCode::kInvalidModel,
           "the file has {}, but a protobuf message at most 2 GB; larger models keep their "
           "initializers in external data",
           HumanBytes(num_bytes));
    }
    const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    constexpr int kBlockBytes = 1 << 18;
    io::CopyingInputStreamAdaptor stream(&file, kBlockBytes);
    try {
      RefuseOrtFormat(BeginOf(stream));
      std::unique_ptr<ModelImpl> impl =
          TranslateErrors(ErrorCode::kInvalidModel, "not a valid ONNX model",
                          [&] { return Build(stream, folder); });
      impl->file_bytes += num_bytes;
      return Model(std::move(impl));
    } catch (const Error&) {
      if (file.error) fail(ErrorText(file.error));
      throw;
    }
  });
}

Model Model::Parse(std::string_view bytes, const fs::path& folder) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    Fail(ErrorCode::kInvalidModel, "a serialized model of {} is larger than a protobuf message",
         HumanBytes(bytes.size()));
  }
  RefuseOrtFormat(bytes);
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return Model(TranslateErrors(ErrorCode::kInvalidModel, "not a valid ONNX model",
                               [&] { return Build(stream, folder); }));
}

}  // namespace bitpress::graph
