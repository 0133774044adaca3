#include "base/system_files.h"

#include <windows.h>

#include <algorithm>
#include <utility>

#include "base/paths.h"
#include "base/system_error.h"

namespace bitpress {
namespace {

// Others may do what they like with our files, and we with theirs, as on other systems.
constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // sizes of a call have 32 bits

HANDLE HandleOf(const SystemFile& file) { return reinterpret_cast<HANDLE>(file.handle()); }

uint64_t Joined(DWORD high, DWORD low) { return uint64_t{high} << 32U | low; }

}  // namespace

SystemFile::SystemFile(const std::filesystem::path& path, Use use, std::error_code& error) {
  DWORD access = GENERIC_READ, creation = OPEN_EXISTING;
  DWORD flags = FILE_FLAG_BACKUP_SEMANTICS;  // opens a folder, too
  if (use == Use::kCreate || use == Use::kCreatePrivate) {
    access |= GENERIC_WRITE | DELETE;
    creation = CREATE_NEW;
    flags = FILE_ATTRIBUTE_NORMAL;
  } else if (use == Use::kReplace) {
    access = GENERIC_WRITE;
    creation = CREATE_ALWAYS;
    flags = FILE_ATTRIBUTE_NORMAL;
  }
  const HANDLE handle =
      ::CreateFileW(SystemPath(path).c_str(), access, kShareAll, nullptr, creation, flags, nullptr);
  static_assert(kNone == -1);  // INVALID_HANDLE_VALUE
  handle_ = reinterpret_cast<intptr_t>(handle);
  if (!is_open()) {
    error = LastError();
  } else if (creation != OPEN_EXISTING && kind() != Kind::kRegular) {
    // NUL, COM1 and others are devices in every folder.
    ::CloseHandle(handle);
    handle_ = kNone;
    error = {ERROR_INVALID_NAME, std::system_category()};
  }
}

SystemFile::~SystemFile() {
  if (is_open()) ::CloseHandle(HandleOf(*this));
}

SystemFile::Kind SystemFile::kind() const {
  BY_HANDLE_FILE_INFORMATION information{};
  if (::GetFileType(HandleOf(*this)) != FILE_TYPE_DISK ||
      ::GetFileInformationByHandle(HandleOf(*this), &information) == 0) {
    return Kind::kOther;
  }
  const bool is_folder = (information.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  return is_folder ? Kind::kFolder : Kind::kRegular;
}

uint64_t SystemFile::num_bytes() const {
  LARGE_INTEGER size{};
  return ::GetFileSizeEx(HandleOf(*this), &size) == 0 ? 0 : static_cast<uint64_t>(size.QuadPart);
}

size_t SystemFile::Read(void* data, size_t size, std::error_code& error) {
  DWORD count = 0;
  const auto most = static_cast<DWORD>(std::min(size, kMostAtOnce));
  if (::ReadFile(HandleOf(*this), data, most, &count, nullptr) == 0 &&
      ::GetLastError() != ERROR_BROKEN_PIPE) {  // the end of a pipe
    error = LastError();
  }
  return count;
}

void SystemFile::Write(const void* data, size_t size, std::error_code& error) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    DWORD written = 0;
    const auto most = static_cast<DWORD>(std::min(size, kMostAtOnce));
    if (::WriteFile(HandleOf(*this), bytes, most, &written, nullptr) == 0) {
      error = LastError();
      return;
    }
    bytes += written;
    size -= written;
  }
}

void SystemFile::Flush(std::error_code& error) {
  if (::FlushFileBuffers(HandleOf(*this)) == 0) error = LastError();
}

void SystemFile::Close(std::error_code& error) {
  const HANDLE handle = HandleOf(*this);
  handle_ = kNone;
  if (::CloseHandle(handle) == 0) error = LastError();
}

std::optional<FileStamp> StampOf(const std::filesystem::path& path) {
  const SystemFile file(reinterpret_cast<intptr_t>(
      ::CreateFileW(SystemPath(path).c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr)));
  BY_HANDLE_FILE_INFORMATION information{};
  if (!file.is_open() || ::GetFileInformationByHandle(HandleOf(file), &information) == 0) {
    return std::nullopt;
  }
  constexpr uint64_t kTicksPerSecond = 10'000'000;
  const FILETIME& changed = information.ftLastWriteTime;
  const uint64_t ticks = Joined(changed.dwHighDateTime, changed.dwLowDateTime);
  return FileStamp{information.dwVolumeSerialNumber,
                   Joined(information.nFileIndexHigh, information.nFileIndexLow),
                   Joined(information.nFileSizeHigh, information.nFileSizeLow),
                   static_cast<int64_t>(ticks / kTicksPerSecond),
                   static_cast<int64_t>(ticks % kTicksPerSecond * 100)};
}

std::error_code ResizeFile(const std::filesystem::path& path, uint64_t num_bytes) {
  const SystemFile file(reinterpret_cast<intptr_t>(
      ::CreateFileW(SystemPath(path).c_str(), GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, nullptr)));
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(num_bytes);
  const bool is_done =
      file.is_open() &&
      ::SetFileInformationByHandle(HandleOf(file), FileEndOfFileInfo, &end, sizeof end) != 0;
  return is_done ? std::error_code() : LastError();
}

std::error_code WhyUnreadable(const std::filesystem::path& path) {
  std::error_code error;
  const SystemFile file(path, SystemFile::Use::kRead, error);
  return error;
}

bool IsProgram(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::error_code MakePrivateFolder(const std::filesystem::path& path) {
  // The user's folder for temporary files is private, and what is in it inherits that.
  return ::CreateDirectoryW(SystemPath(path).c_str(), nullptr) != 0 ? std::error_code()
                                                                    : LastError();
}

}  // namespace bitpress
