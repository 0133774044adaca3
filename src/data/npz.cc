// The reader of .npz files, through libzip.
#include <zip.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "data/npy.h"

namespace bitpress::data {
namespace {

// The best ratio of deflate, the only compression that NumPy writes.
constexpr uint64_t kMaxCompressionRatio = 1100;

struct Member {
  uint64_t index = 0;  // index in the zip
  uint64_t num_bytes = 0;
};

struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using MemberReader = std::unique_ptr<zip_file_t, CloseFile>;

void ReadExactly(zip_file_t* file, void* target, size_t num_bytes) {
  auto* bytes = static_cast<std::byte*>(target);
  while (num_bytes > 0) {
    const zip_int64_t count = zip_fread(file, bytes, num_bytes);
    if (count <= 0) {
      Fail(ErrorCode::kInvalidArgument, "the .npz file is damaged: {}",
           count == 0 ? "it ends early" : zip_error_strerror(zip_file_get_error(file)));
    }
    bytes += count;
    num_bytes -= static_cast<size_t>(count);
  }
}

// Reads past the last byte, which makes libzip compare the checksum.
void CheckEnd(zip_file_t* file) {
  char extra = 0;
  if (zip_fread(file, &extra, 1) != 0) {
    Fail(ErrorCode::kInvalidArgument, "the .npz file is damaged: {}",
         zip_error_strerror(zip_file_get_error(file)));
  }
}

}  // namespace

struct NpzFile::Impl {
  std::string path;
  zip_t* zip = nullptr;
  std::vector<std::string> names;
  std::vector<Member> members;

  ~Impl() {
    if (zip != nullptr) zip_discard(zip);
  }

  void List() {
    const zip_int64_t num_entries = zip_get_num_entries(zip, 0);
    for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(num_entries); ++i) {
      zip_stat_t info;
      zip_stat_init(&info);
      constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
      if (zip_stat_index(zip, i, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded) {
        Fail(ErrorCode::kInvalidArgument, "{}: member {} of the .npz file cannot be read", path, i);
      }
      std::string name = info.name;
      if (!name.ends_with(".npy")) continue;
      name.resize(name.size() - 4);
      if (info.size / kMaxCompressionRatio > info.comp_size) {
        Fail(ErrorCode::kInvalidArgument,
             "{}: array '{}' claims {} bytes but is stored in {}: the file is damaged", path, name,
             info.size, info.comp_size);
      }
      names.push_back(std::move(name));
      members.push_back({.index = i, .num_bytes = info.size});
    }
  }

  std::string Context(size_t index) const {
    return fmt::format("{}: array '{}'", path, names[index]);
  }

  MemberReader Open(size_t index) const {
    MemberReader reader(zip_fopen_index(zip, members[index].index, 0));
    if (!reader) {
      Fail(ErrorCode::kInvalidArgument, "the .npz file is damaged: {}", zip_strerror(zip));
    }
    return reader;
  }

  NpyHeader ReadHeader(zip_file_t* reader, size_t index) const {
    return ReadNpyHeader([&](void* target, size_t count) { ReadExactly(reader, target, count); },
                         members[index].num_bytes);
  }
};

NpzFile::NpzFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = PathText(path);
  int code = 0;
  impl_->zip = zip_open(PathText(path).c_str(), ZIP_RDONLY, &code);
  if (impl_->zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string message = zip_error_strerror(&error);
    zip_error_fini(&error);
    Fail(code == ZIP_ER_NOENT || code == ZIP_ER_OPEN || code == ZIP_ER_READ
             ? ErrorCode::kIo
             : ErrorCode::kInvalidArgument,
         "cannot read '{}' as .npz: {}", PathText(path), message);
  }
  impl_->List();
}

NpzFile::~NpzFile() = default;
NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;

const std::vector<std::string>& NpzFile::names() const { return impl_->names; }

NpyHeader NpzFile::Header(size_t index) const {
  return WithContext(impl_->Context(index), [&] {
    const MemberReader reader = impl_->Open(index);
    return impl_->ReadHeader(reader.get(), index);
  });
}

Tensor NpzFile::Read(size_t index) const {
  return WithContext(impl_->Context(index), [&] {
    const MemberReader reader = impl_->Open(index);
    const NpyHeader header = impl_->ReadHeader(reader.get(), index);
    Tensor result{.type = header.type, .dims = header.dims, .bytes = {}};
    result.bytes.resize(NumBytes(result.type, result.num_elements()));
    ReadExactly(reader.get(), result.bytes.data(), result.bytes.size());
    CheckEnd(reader.get());
    return header.is_fortran_order ? FromFortranOrder(result) : result;
  });
}

}  // namespace bitpress::data
