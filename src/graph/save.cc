// Writing a model. Its message is put together from small parts that protobuf serializes and the
// initializers' data as they lie in memory, so that no second copy of them is made.
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/model_impl.h"
#include "graph/onnx_error.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;

// As ONNX's own tools: smaller tensors stay in the message.
constexpr size_t kExternalFromBytes = 1024;
// Large tensors begin at a page, so that readers can map them.
constexpr size_t kPageAlignFromBytes = size_t{1} << 16;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSmallAlignment = 64;

struct Piece {
  std::string header;
  std::span<const std::byte> data;
  uint64_t size() const { return header.size() + data.size(); }
};

struct ExternalPiece {
  uint64_t offset;
  std::span<const std::byte> data;
};

struct Encoded {
  std::vector<Piece> message;
  uint64_t message_bytes = 0;
  std::vector<ExternalPiece> external;
};

void AppendVarint(std::string& out, uint64_t number) {
  constexpr uint64_t kMore = 0x80;
  while (number >= kMore) {
    out.push_back(static_cast<char>((number & (kMore - 1)) | kMore));
    number >>= 7;
  }
  out.push_back(static_cast<char>(number));
}

// Tag and length of a protobuf field that holds bytes or a message.
void AppendFieldHeader(std::string& out, int field_number, uint64_t num_bytes) {
  constexpr uint64_t kLengthDelimited = 2;
  AppendVarint(out, (static_cast<uint64_t>(field_number) << 3) | kLengthDelimited);
  AppendVarint(out, num_bytes);
}

void SetExternal(onnx::TensorProto& tensor, const std::string& location, uint64_t offset,
                 uint64_t num_bytes) {
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* const entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(num_bytes));
}

// One entry of the graph's initializer field. Takes the tensor's data from `data` if it is a stub.
Piece EncodeInitializer(onnx::TensorProto& tensor, std::span<const std::byte> data) {
  Piece piece;
  if (!IsExternal(tensor) || tensor.external_data(0).value() != kStubLocation) {
    const std::string bytes = tensor.SerializeAsString();
    AppendFieldHeader(piece.header, onnx::GraphProto::kInitializerFieldNumber, bytes.size());
    piece.header += bytes;
    return piece;
  }
  tensor.clear_external_data();
  tensor.clear_data_location();
  std::string bytes = tensor.SerializeAsString();
  AppendFieldHeader(bytes, onnx::TensorProto::kRawDataFieldNumber, data.size());
  AppendFieldHeader(piece.header, onnx::GraphProto::kInitializerFieldNumber,
                    bytes.size() + data.size());
  piece.header += bytes;
  piece.data = data;
  return piece;
}

// With a name for the data file, initializers of kExternalFromBytes and more go there.
Encoded Encode(const ModelImpl& impl, const std::optional<std::string>& data_file) {
  Encoded encoded;
  onnx::ModelProto rest = impl.proto;  // small: the large initializers are stubs
  const std::unique_ptr<onnx::GraphProto> graph(rest.release_graph());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> tensors;
  graph->mutable_initializer()->Swap(&tensors);

  encoded.message.emplace_back();
  uint64_t graph_bytes = graph->ByteSizeLong();
  uint64_t data_end = 0;
  for (onnx::TensorProto& tensor : tensors) {
    const std::span<const std::byte> data = impl.Find(tensor.name())->storage.bytes;
    if (data_file && data.size() >= kExternalFromBytes) {
      const uint64_t alignment = data.size() >= kPageAlignFromBytes ? kPageBytes : kSmallAlignment;
      const uint64_t offset = (data_end + alignment - 1) / alignment * alignment;
      SetExternal(tensor, *data_file, offset, data.size());
      encoded.external.push_back({offset, data});
      data_end = offset + data.size();
    }
    graph_bytes += encoded.message.emplace_back(EncodeInitializer(tensor, data)).size();
  }

  std::string header;
  AppendFieldHeader(header, onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  encoded.message_bytes = rest.ByteSizeLong() + header.size() + graph_bytes;
  // Protobuf refuses to serialize parts above its limit.
  if (encoded.message_bytes <= impl.max_message_bytes) {
    encoded.message.front().header = rest.SerializeAsString() + header + graph->SerializeAsString();
  }
  return encoded;
}

[[noreturn]] void FailTooLarge(const Encoded& encoded, const ModelImpl& impl,
                               std::string_view advice) {
  Fail(ErrorCode::kUnsupported, "the model takes {}, but a protobuf message holds at most {}{}",
       HumanBytes(encoded.message_bytes), HumanBytes(impl.max_message_bytes), advice);
}

void WriteExternal(AtomicFile& file, const std::vector<ExternalPiece>& pieces) {
  static constexpr char kZeros[kPageBytes] = {};
  uint64_t position = 0;
  for (const ExternalPiece& piece : pieces) {
    file.Write(kZeros, piece.offset - position);
    file.Write(piece.data.data(), piece.data.size());
    position = piece.offset + piece.data.size();
  }
}

void WriteMessage(AtomicFile& file, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    file.Write(piece.header);
    file.Write(piece.data.data(), piece.data.size());
  }
}

// Both files are complete on disk before the first is renamed. If the second rename fails, a data
// file that was not there before is removed again.
void WriteFiles(const fs::path& path, const fs::path& data_path, const Encoded& encoded) {
  AtomicFile model(path);
  WriteMessage(model, encoded.message);
  if (encoded.external.empty()) return model.Commit();
  AtomicFile data(data_path);
  WriteExternal(data, encoded.external);
  std::error_code ignored;
  const bool existed = fs::exists(data_path, ignored);
  data.Commit();
  try {
    model.Commit();
  } catch (...) {
    if (!existed) fs::remove(data_path, ignored);
    throw;
  }
}

}  // namespace

void Model::Save(const fs::path& path, bool external_data) const {
  TranslateErrors(ErrorCode::kRuntime, fmt::format("cannot write '{}'", path.string()), [&] {
    const std::string data_file = path.filename().string() + ".data";
    std::optional<Encoded> encoded;
    if (!external_data) encoded = Encode(*impl_, std::nullopt);
    if (!encoded || encoded->message_bytes > impl_->max_message_bytes) {
      encoded = Encode(*impl_, data_file);
    }
    if (encoded->message_bytes > impl_->max_message_bytes) {
      FailTooLarge(*encoded, *impl_, " even with its initializers in external data");
    }
    WriteFiles(path, path.parent_path() / data_file, *encoded);
  });
}

std::string Model::Serialize() const {
  return TranslateErrors(ErrorCode::kRuntime, "cannot serialize the model", [&] {
    const Encoded encoded = Encode(*impl_, std::nullopt);
    if (encoded.message_bytes > impl_->max_message_bytes) {
      FailTooLarge(encoded, *impl_, "; save it to a file with external data");
    }
    std::string bytes;
    bytes.reserve(encoded.message_bytes);
    for (const Piece& piece : encoded.message) {
      bytes += piece.header;
      bytes.append(reinterpret_cast<const char*>(piece.data.data()), piece.data.size());
    }
    return bytes;
  });
}

}  // namespace bitpress::graph
