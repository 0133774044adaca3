#include "base/mapped_memory.h"

#include <windows.h>

#include <atomic>
#include <cstdint>

#include "base/error.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"

namespace bitpress {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// Returns the first bytes of a file in memory, or nullptr. A file that is written grows to `size`,
// for which there must be room.
void* MapFile(const SystemFile& file, size_t size, bool is_written) {
  const HANDLE mapping = ::CreateFileMappingW(
      reinterpret_cast<HANDLE>(file.handle()), nullptr, is_written ? PAGE_READWRITE : PAGE_READONLY,
      static_cast<DWORD>(size >> 32U), static_cast<DWORD>(size), nullptr);
  if (mapping == nullptr) return nullptr;
  void* const memory =
      ::MapViewOfFile(mapping, is_written ? FILE_MAP_WRITE : FILE_MAP_READ, 0, 0, size);
  const DWORD code = ::GetLastError();
  ::CloseHandle(mapping);  // the view stays
  ::SetLastError(code);
  return memory;
}

}  // namespace

MappedMemory::MappedMemory(size_t size) {
  if (size == 0) return;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  // The file goes with its mapping. In memory it is as long as there is room. An address is no
  // name: what lay there may have moved on, with its file.
  static std::atomic<uint64_t> num_files = 0;
  const std::filesystem::path path =
      folder / fmt::format("bitpress-{}-{}", ::GetCurrentProcessId(), num_files++);
  const SystemFile file(reinterpret_cast<intptr_t>(::CreateFileW(
      SystemPath(path).c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, kShareAll, nullptr,
      CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr)));
  void* const memory = file.is_open() ? MapFile(file, size, true) : nullptr;
  if (memory == nullptr) {
    Fail(ErrorCode::kIo, "cannot write {} bytes to '{}': {} (TMP names the folder)", size,
         PathText(path), ErrorText(LastError()));
  }
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::UnmapViewOfFile(data_);
}

void MappedMemory::Release() const { ReleasePages({data_, size_}); }

MappedFile::MappedFile(const SystemFile& file, std::error_code& error) {
  const auto size = static_cast<size_t>(file.num_bytes());
  if (size == 0) return;
  const void* const memory = MapFile(file, size, false);
  if (memory == nullptr) {
    error = LastError();
  } else {
    bytes_ = {static_cast<const std::byte*>(memory), size};
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::UnmapViewOfFile(bytes_.data());
}

// To unlock pages that are not locked takes them out of the working set. No contents are lost.
void ReleasePages(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::VirtualUnlock(const_cast<std::byte*>(bytes.data()), bytes.size());
}

void ReleaseUnchangedPages(std::span<const std::byte> bytes) {
  MEMORY_BASIC_INFORMATION information{};
  if (!bytes.empty() && ::VirtualQuery(bytes.data(), &information, sizeof(information)) != 0 &&
      information.Type == MEM_MAPPED) {
    ReleasePages(bytes);
  }
}

}  // namespace bitpress
