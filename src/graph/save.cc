// The writing of a model. Its message is put together from small parts that protobuf serializes and
// the initializers' data as they lie in memory, so that no second copy of them is made.
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_memory.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"
#include "base/text.h"
#include "graph/model_impl.h"
#include "graph/onnx_error.h"
#include "graph/staged_model.h"
#include "graph/stored_bytes.h"
#include "graph/tensor_proto.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;

// The bytes from which on tensors leave the message, as in ONNX's own tools.
constexpr size_t kExternalFromBytes = 1024;
// Large tensors begin at a page, so that readers can map them.
constexpr size_t kPageAlignFromBytes = size_t{1} << 16;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSmallAlignment = 64;

// The data of one initializer, in memory or computed when their turn comes.
struct Data {
  uint64_t num_bytes = 0;
  std::span<const std::byte> bytes;
  const DeferredGroup* deferred = nullptr;
  size_t index_in_group = 0;
  bool is_mapped = false;

  // Memory must not grow with the model while it is written.
  void Release() const {
    if (is_mapped) ReleasePages(bytes);
  }
};

struct Piece {
  std::string header;
  Data data;
  uint64_t size() const { return header.size() + data.num_bytes; }
};

struct ExternalPiece {
  std::string name;  // of the initializer
  uint64_t offset;
  Data data;
};

struct Encoded {
  std::vector<Piece> message;
  uint64_t message_bytes = 0;
  std::vector<ExternalPiece> external;

  uint64_t num_bytes() const {
    if (external.empty()) return message_bytes;
    return message_bytes + external.back().offset + external.back().data.num_bytes;
  }
};

void AppendVarint(std::string& out, uint64_t number) {
  constexpr uint64_t kMore = 0x80;
  while (number >= kMore) {
    out.push_back(static_cast<char>((number & (kMore - 1)) | kMore));
    number >>= 7;
  }
  out.push_back(static_cast<char>(number));
}

// Returns tag and length of a protobuf field that holds bytes or a message.
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

Data DataOf(const ValueEntry& entry) {
  if (entry.deferred == nullptr) {
    return {entry.storage.bytes.size(), entry.storage.bytes, nullptr, 0, entry.storage.is_mapped};
  }
  return {ExpectedBytes(*entry.initializer), {}, entry.deferred.get(), entry.index_in_group};
}

// A carrier of a producer's exception past TranslateErrors, which is for the exceptions of protobuf
// only.
struct ProducerFailure {
  std::exception_ptr exception;
};

// Runs the producer of `group`. An Error leaves as it is, and so does a lack of memory.
std::vector<Tensor> Produce(const DeferredGroup& group) {
  try {
    return group.Produce();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    throw ProducerFailure{std::current_exception()};
  }
}

// Calls `function()` as TranslateErrors does. A producer's exception that is no Error leaves
// unchanged, because it belongs to the caller: a progress sink throws to stop the work.
template <typename Function>
auto TranslateOwnErrors(std::string_view what, Function&& function) {
  try {
    return TranslateErrors(ErrorCode::kRuntime, what, std::forward<Function>(function));
  } catch (const ProducerFailure& failure) {
    std::rethrow_exception(failure.exception);
  }
}

// A cache of the group that was computed last. The tensors of a group stand side by side.
class Computed {
 public:
  std::span<const std::byte> BytesOf(const Data& data) {
    if (data.deferred == nullptr) return data.bytes;
    if (data.deferred != group_) {
      tensors_.clear();  // the next ones need the room
      tensors_ = Produce(*data.deferred);
      group_ = data.deferred;
    }
    return tensors_[data.index_in_group].bytes;
  }

 private:
  const DeferredGroup* group_ = nullptr;
  std::vector<Tensor> tensors_;
};

// Returns one entry of the graph's initializer field. A stub's data come from `data`.
Piece EncodeInitializer(onnx::TensorProto& tensor, const Data& data) {
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
  AppendFieldHeader(bytes, onnx::TensorProto::kRawDataFieldNumber, data.num_bytes);
  AppendFieldHeader(piece.header, onnx::GraphProto::kInitializerFieldNumber,
                    bytes.size() + data.num_bytes);
  piece.header += bytes;
  piece.data = data;
  return piece;
}

// Moves the fields out of a model whose numbers are below that of its graph.
onnx::ModelProto TakeFront(onnx::ModelProto& model) {
  onnx::ModelProto front;
  if (model.has_ir_version()) front.set_ir_version(model.ir_version());
  if (model.has_producer_name()) front.set_producer_name(model.producer_name());
  if (model.has_producer_version()) front.set_producer_version(model.producer_version());
  if (model.has_domain()) front.set_domain(model.domain());
  if (model.has_model_version()) front.set_model_version(model.model_version());
  if (model.has_doc_string()) front.set_doc_string(model.doc_string());
  model.clear_ir_version();
  model.clear_producer_name();
  model.clear_producer_version();
  model.clear_domain();
  model.clear_model_version();
  model.clear_doc_string();
  return front;
}

// Returns the model's pieces, in the order of their fields, by which OpenVINO knows an ONNX file.
// If the data file has a name, initializers of kExternalFromBytes and more go there.
Encoded Encode(const ModelImpl& impl, const std::optional<std::string>& data_file) {
  Encoded encoded;
  onnx::ModelProto rest = impl.proto;  // small, because the large initializers are stubs
  const std::unique_ptr<onnx::GraphProto> graph(rest.release_graph());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> tensors;
  graph->mutable_initializer()->Swap(&tensors);

  const onnx::ModelProto front = TakeFront(rest);
  encoded.message.emplace_back();
  uint64_t graph_bytes = graph->ByteSizeLong();
  uint64_t data_end = 0;
  for (onnx::TensorProto& tensor : tensors) {
    const Data data = DataOf(*impl.Find(tensor.name()));
    if (data_file && data.num_bytes >= kExternalFromBytes) {
      const uint64_t alignment =
          data.num_bytes >= kPageAlignFromBytes ? kPageBytes : kSmallAlignment;
      const uint64_t offset = (data_end + alignment - 1) / alignment * alignment;
      SetExternal(tensor, *data_file, offset, data.num_bytes);
      encoded.external.push_back({tensor.name(), offset, data});
      data_end = offset + data.num_bytes;
    }
    graph_bytes += encoded.message.emplace_back(EncodeInitializer(tensor, data)).size();
  }

  std::string header;
  AppendFieldHeader(header, onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  encoded.message_bytes = front.ByteSizeLong() + header.size() + graph_bytes + rest.ByteSizeLong();
  // Protobuf refuses to serialize parts above its limit.
  if (encoded.message_bytes <= impl.max_message_bytes) {
    encoded.message.front().header =
        front.SerializeAsString() + header + graph->SerializeAsString();
    encoded.message.push_back({rest.SerializeAsString(), {}});
  }
  return encoded;
}

[[noreturn]] void FailTooLarge(const Encoded& encoded, const ModelImpl& impl,
                               std::string_view advice) {
  Fail(ErrorCode::kUnsupported, "the model takes {}, but a protobuf message holds at most {}{}",
       HumanBytes(encoded.message_bytes), HumanBytes(impl.max_message_bytes), advice);
}

// Returns the pieces of a model as it is written, with external data where that is asked for or
// needed.
Encoded Encode(const ModelImpl& impl, const std::string& data_file, ExternalData external_data) {
  std::optional<Encoded> encoded;
  if (external_data == ExternalData::kIfNeeded) encoded = Encode(impl, std::nullopt);
  if (!encoded || encoded->message_bytes > impl.max_message_bytes) {
    encoded = Encode(impl, data_file);
  }
  if (encoded->message_bytes > impl.max_message_bytes) {
    FailTooLarge(*encoded, impl, " even with its initializers in external data");
  }
  return *std::move(encoded);
}

void WriteExternal(AtomicFile& file, const std::vector<ExternalPiece>& pieces) {
  static constexpr char kZeros[kPageBytes] = {};
  Computed computed;
  uint64_t position = 0;
  for (const ExternalPiece& piece : pieces) {
    const std::span<const std::byte> bytes = computed.BytesOf(piece.data);
    file.Write(kZeros, piece.offset - position);
    file.Write(bytes.data(), bytes.size());
    position = piece.offset + bytes.size();
    piece.data.Release();
  }
}

void WriteMessage(AtomicFile& file, const std::vector<Piece>& pieces) {
  Computed computed;
  for (const Piece& piece : pieces) {
    const std::span<const std::byte> bytes = computed.BytesOf(piece.data);
    file.Write(piece.header);
    file.Write(bytes.data(), bytes.size());
    piece.data.Release();
  }
}

std::string JoinPieces(const Encoded& encoded) {
  std::string bytes;
  bytes.reserve(encoded.message_bytes);
  Computed computed;
  for (const Piece& piece : encoded.message) {
    const std::span<const std::byte> data = computed.BytesOf(piece.data);
    bytes += piece.header;
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return bytes;
}

// Returns the names that data files of a model get, the first free one first.
std::string DataFileName(const fs::path& path, size_t number) {
  const std::string name = PathText(path.filename());
  return number == 0 ? name + ".data" : fmt::format("{}.{}.data", name, number);
}

std::string FreeDataFileName(const fs::path& path) {
  for (size_t number = 0;; ++number) {
    std::string name = DataFileName(path, number);
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(path.parent_path() / PathOf(name), ignored))) return name;
  }
}

// Returns whether another model in the folder, such as the old one under a new name, has its data
// in the file.
bool IsDataOfAnother(const fs::path& data, const fs::path& model) {
  std::error_code ignored;
  const fs::path folder = model.has_parent_path() ? model.parent_path() : ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& other = entry.path();
    if (other.extension() == ".onnx" && other.filename() != model.filename() &&
        ExternalLocations(other).contains(PathText(data.filename()))) {
      return true;
    }
  }
  return false;
}

}  // namespace

fs::path ReplacedDataFile(const fs::path& path) {
  const std::set<std::string> locations = ExternalLocations(path);
  if (locations.size() != 1) return {};
  constexpr size_t kMostTried = 100;
  for (size_t number = 0; number < kMostTried; ++number) {
    if (*locations.begin() != DataFileName(path, number)) continue;
    const fs::path data = path.parent_path() / PathOf(*locations.begin());
    return IsDataOfAnother(data, path) ? fs::path() : data;
  }
  return {};
}

std::string ReplacedDataNote(const fs::path& output) {
  const fs::path data = ReplacedDataFile(FollowLink(output));
  if (data.empty()) return "";
  return fmt::format(
      "'{}', the data of the model that '{}' holds now, is removed when that is replaced",
      PathText(data), PathText(output));
}

// The model's file, or a folder with the model and its data file. Both have their last names in the
// folder, so that the model can be read there, and nothing of it stands beside the output before
// Commit: a killed run leaves the folder at most.
struct StagedModel::Impl {
  Impl(fs::path path, Durability when_read)
      : target(std::move(path)), old_data(ReplacedDataFile(target)), durability(when_read) {}

  void Write(const Encoded& encoded, const std::string& data_name) {
    num_bytes = encoded.num_bytes();
    if (encoded.external.empty()) {
      file.emplace(target);
      WriteMessage(*file, encoded.message);
      readable = file->ReadablePath(/*beside=*/false);
      return;
    }
    { const AtomicFile probe(target); }  // before any work
    folder.emplace(target);
    readable = folder->path() / target.filename();
    staged_data = folder->path() / PathOf(data_name);
    AtomicFile data(staged_data);
    WriteExternal(data, encoded.external);
    data.Commit(durability);
    AtomicFile message(readable);
    WriteMessage(message, encoded.message);
    message.Commit(durability);
  }

  void Commit() {
    if (!folder) {
      file->Commit(durability);
    } else {
      // Nothing refers to the data file's name before the model is renamed, and both are complete
      // on disk by then.
      const fs::path data = target.parent_path() / staged_data.filename();
      Rename(staged_data, data);
      try {
        Rename(readable, target);
      } catch (const Error&) {
        std::error_code ignored;
        fs::remove(data, ignored);
        throw;
      }
      folder.reset();
    }
    std::error_code ignored;
    if (!old_data.empty()) fs::remove(old_data, ignored);
  }

  static void Rename(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(to), ErrorText(error));
  }

  fs::path target;
  fs::path old_data;  // of the model that is replaced; empty: nothing is to be removed
  Durability durability;
  fs::path readable;
  fs::path staged_data;                 // empty: there is none
  std::optional<AtomicFile> file;       // the model without external data
  std::optional<ScratchFolder> folder;  // of the model with external data
  uint64_t num_bytes = 0;
};

StagedModel::StagedModel(const Model& model, const fs::path& path, ExternalData external_data,
                         Durability durability) {
  TranslateOwnErrors(fmt::format("cannot write '{}'", PathText(path)), [&] {
    const fs::path target = FollowLink(path);  // the files stand there
    const std::string data_file = FreeDataFileName(target);
    const Encoded encoded = Encode(ModelAccess::Impl(model), data_file, external_data);
    impl_ = std::make_unique<Impl>(target, durability);
    impl_->Write(encoded, data_file);
  });
}

uint64_t StagedModel::BytesOf(const Model& model, const fs::path& path,
                              ExternalData external_data) {
  return TranslateOwnErrors(fmt::format("cannot write '{}'", PathText(path)), [&] {
    const std::string data_file = FreeDataFileName(FollowLink(path));
    return Encode(ModelAccess::Impl(model), data_file, external_data).num_bytes();
  });
}

StagedModel::~StagedModel() = default;

const fs::path& StagedModel::path() const { return impl_->readable; }

uint64_t StagedModel::num_bytes() const { return impl_->num_bytes; }

void StagedModel::Commit() { impl_->Commit(); }

uint64_t Model::Save(const fs::path& path, ExternalData external_data) const {
  StagedModel staged(*this, path, external_data, Durability::kForReaders);
  staged.Commit();
  return staged.num_bytes();
}

std::string Model::Serialize() const {
  return TranslateOwnErrors("cannot serialize the model", [&] {
    const Encoded encoded = Encode(*impl_, std::nullopt);
    if (encoded.message_bytes > impl_->max_message_bytes) {
      FailTooLarge(encoded, *impl_, "; save it to a file with external data");
    }
    return JoinPieces(encoded);
  });
}

DetachedModel Model::Detach() const {
  return TranslateOwnErrors("cannot serialize the model", [&] {
    const Encoded encoded = Encode(*impl_, "initializers");
    if (encoded.message_bytes > impl_->max_message_bytes) {
      FailTooLarge(encoded, *impl_, " even without its initializers");
    }
    DetachedModel detached{.message = JoinPieces(encoded), .initializers = {}};
    const DeferredGroup* group = nullptr;
    std::shared_ptr<const std::vector<Tensor>> tensors;  // of that group
    for (const ExternalPiece& piece : encoded.external) {
      if (piece.data.deferred == nullptr) {
        detached.initializers.emplace_back(piece.name, HoldInitializer(piece.name));
        continue;
      }
      if (piece.data.deferred != group) {
        group = piece.data.deferred;
        tensors = std::make_shared<const std::vector<Tensor>>(Produce(*group));
      }
      const Tensor& tensor = tensors->at(piece.data.index_in_group);
      detached.initializers.emplace_back(
          piece.name, HeldInitializer{tensor.type, tensor.dims, tensor.bytes, tensors});
    }
    return detached;
  });
}

}  // namespace bitpress::graph
