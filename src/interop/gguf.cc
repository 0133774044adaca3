// Files of llama.cpp: a header, pairs of keys and values, a table of tensors, and their bytes.
// Source: the specification of GGUF (ggml/docs/gguf.md), versions 2 and 3, little-endian.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/byte_stream.h"
#include "base/error.h"
#include "interop/ggml_blocks.h"
#include "interop/weights_file.h"

namespace bitpress::interop {
namespace {

constexpr std::string_view kKind = "GGUF file";
// The numbers of types of values and tensors in the file.
constexpr uint32_t kUInt32 = 4, kString = 8, kArray = 9;
constexpr uint32_t kF32 = 0, kF16 = 1, kBF16 = 30;

std::string TypeName(uint32_t id) {
  if (id == kF32) return "F32";
  if (id == kF16) return "F16";
  if (id == kBF16) return "BF16";
  if (const BlockType* const type = FindBlockType(id)) return std::string(type->name);
  return fmt::format("number {} of ggml", id);
}

class GgufFile : public WeightsFile {
 public:
  explicit GgufFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
    const std::span<const std::byte> bytes = file_->bytes();
    ByteReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kKind);
    reader.Take(4);  // "GGUF"
    const auto version = reader.Number<uint32_t>();
    if (version != 2 && version != 3) {
      Fail(ErrorCode::kUnsupported, "version {} of GGUF is not read; 2 and 3 are", version);
    }
    const auto num_tensors = reader.Number<uint64_t>();
    const auto num_values = reader.Number<uint64_t>();
    for (uint64_t i = 0; i < num_values; ++i) ReadValue(reader);
    for (uint64_t i = 0; i < num_tensors; ++i) ReadEntry(reader);
    const uint64_t header = bytes.size() - reader.num_left();
    const uint64_t alignment = Number("general.alignment").value_or(32);
    if (alignment == 0 || alignment > (1U << 20U)) reader.FailDamaged("its alignment");
    data_ = std::min<uint64_t>((header + alignment - 1) / alignment * alignment, bytes.size());
    NamePlaces();
  }

  FileWeight Read(const std::string& name) const override {
    const Entry& entry = entries_.at(name);
    return WithContext(fmt::format("tensor '{}'", name), [&] { return ReadTensor(entry); });
  }

  int64_t NumPairedHeads(const TensorPlace& place) const override {
    const std::string prefix = architecture_ + ".attention.head_count";
    const std::optional<uint64_t> heads = Number(prefix);
    const uint64_t count =
        (place.part == "k_proj" ? Number(prefix + "_kv") : heads).value_or(heads.value_or(0));
    return static_cast<int64_t>(std::min<uint64_t>(count, 1U << 20U));
  }

 private:
  struct Entry {
    std::vector<uint64_t> dims;  // the innermost comes first
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  static std::string ReadText(ByteReader& reader) {
    return std::string(reader.Take(static_cast<size_t>(
        std::min<uint64_t>(reader.Number<uint64_t>(), reader.num_left() + uint64_t{1}))));
  }

  static size_t SizeOf(uint32_t type, ByteReader& reader) {
    constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type >= std::size(kSizes) || kSizes[type] == 0) reader.FailDamaged("a value's type");
    return kSizes[type];
  }

  void ReadValue(ByteReader& reader) {
    const std::string key = ReadText(reader);
    const auto type = reader.Number<uint32_t>();
    if (type == kUInt32) {
      numbers_[key] = reader.Number<uint32_t>();
    } else if (type == kString) {
      std::string text = ReadText(reader);
      if (key == "general.architecture") architecture_ = std::move(text);
    } else if (type == kArray) {
      SkipArray(reader);
    } else {
      reader.Take(SizeOf(type, reader));
    }
  }

  static void SkipArray(ByteReader& reader) {
    const auto type = reader.Number<uint32_t>();
    const auto count = reader.Number<uint64_t>();
    if (count > reader.num_left()) reader.FailDamaged("an array's length");
    if (type != kString) {
      const size_t size = SizeOf(type, reader);
      if (count > reader.num_left() / size) reader.FailDamaged("an array's length");
      reader.Take(static_cast<size_t>(count) * size);
      return;
    }
    for (uint64_t i = 0; i < count; ++i) ReadText(reader);
  }

  void ReadEntry(ByteReader& reader) {
    const std::string name = ReadText(reader);
    Entry entry;
    const auto rank = reader.Number<uint32_t>();
    constexpr uint32_t kMostDimensions = 8;
    if (rank > kMostDimensions) reader.FailDamaged("a tensor's rank");
    for (uint32_t i = 0; i < rank; ++i) entry.dims.push_back(reader.Number<uint64_t>());
    entry.type = reader.Number<uint32_t>();
    entry.offset = reader.Number<uint64_t>();
    if (!entries_.emplace(name, std::move(entry)).second) {
      reader.FailDamaged("two tensors of one name");
    }
  }

  void NamePlaces() {
    const bool has_post_norms = entries_.contains("blk.0.post_ffw_norm.weight");
    for (const auto& [name, entry] : entries_) {
      if (const auto place = PlaceOfGgufName(name, has_post_norms)) {
        tensors_.emplace(*place, name);
      } else {
        others_.push_back(name);
      }
    }
  }

  std::optional<uint64_t> Number(const std::string& key) const {
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  FileWeight ReadTensor(const Entry& entry) const {
    const BlockType* const type = FindBlockType(entry.type);
    const bool is_half = entry.type == kF16 || entry.type == kBF16;
    if (type == nullptr && entry.type != kF32 && !is_half) {
      std::vector<std::string_view> names = {"F32", "F16", "BF16"};
      for (const BlockType& known : AllBlockTypes()) names.push_back(known.name);
      Fail(ErrorCode::kUnsupported, "its type {} is not read; these are: {}", TypeName(entry.type),
           fmt::join(names, ", "));
    }
    if (entry.dims.empty() || entry.dims.size() > 2) {
      Fail(ErrorCode::kUnsupported, "it has {} dimensions; matrices and vectors are read",
           entry.dims.size());
    }
    // A tensor has no more elements than a sixteenth of a byte each allows.
    const uint64_t room = file_->bytes().size() - data_;
    const uint64_t length = entry.dims[0], rows = entry.dims.size() == 2 ? entry.dims[1] : 1;
    const auto elements_each = static_cast<uint64_t>(type == nullptr ? 1 : type->num_elements);
    const auto bytes_each =
        static_cast<uint64_t>(type == nullptr ? (is_half ? 2 : 4) : type->num_bytes);
    if (length == 0 || rows == 0 || length % elements_each != 0 || length > room * 16 ||
        rows > room * 16 / length || entry.offset > room ||
        rows * length / elements_each > (room - entry.offset) / bytes_each) {
      Fail(ErrorCode::kInvalidArgument, "{} rows of {} {} elements do not fit the file", rows,
           length, TypeName(entry.type));
    }
    const std::span<const std::byte> bytes =
        file_->bytes().subspan(static_cast<size_t>(data_ + entry.offset),
                               static_cast<size_t>(rows * length / elements_each * bytes_each));
    FileWeight weight;
    if (type != nullptr) {
      weight = DecodeBlocks(*type, bytes, static_cast<int64_t>(rows), static_cast<int64_t>(length));
    } else {
      weight.type = TypeName(entry.type);
      weight.num_rows = static_cast<int64_t>(rows);
      weight.row_length = static_cast<int64_t>(length);
      weight.floats = FloatsOf(weight.type, bytes);
    }
    ReleaseUnchangedPages(bytes);
    return weight;
  }

  std::shared_ptr<const MappedFile> file_;
  uint64_t data_ = 0;  // where the tensors' bytes begin
  std::string architecture_;
  std::map<std::string, uint64_t> numbers_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

std::unique_ptr<WeightsFile> OpenGguf(std::shared_ptr<const MappedFile> file) {
  return std::make_unique<GgufFile>(std::move(file));
}

}  // namespace bitpress::interop
