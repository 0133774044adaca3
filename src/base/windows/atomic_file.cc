#include "base/atomic_file.h"

#include <windows.h>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"

namespace bitpress {
namespace {

HANDLE HandleOf(const SystemFile& file) { return reinterpret_cast<HANDLE>(file.handle()); }

// Makes the system remove the file when it is closed, by the end of the process too, or no longer.
void RemoveOnClose(const SystemFile& file, bool is_removed) {
  FILE_DISPOSITION_INFO disposition{};
  disposition.DeleteFile = is_removed ? TRUE : FALSE;
  ::SetFileInformationByHandle(HandleOf(file), FileDispositionInfo, &disposition,
                               sizeof(disposition));
}

// Scanners and indexers open a new file for a moment, in which it cannot be moved.
constexpr int kMostTries = 20;
constexpr DWORD kPauseMs = 25;

bool IsPassing(DWORD code) {
  return code == ERROR_SHARING_VIOLATION || code == ERROR_ACCESS_DENIED;
}

}  // namespace

// Windows replaces no file that is read-only, or that someone has open without sharing it.
std::string AtomicFile::WhyNotReplaceable() const {
  const std::wstring path = SystemPath(path_).native();
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES) return "";
  if ((attributes & FILE_ATTRIBUTE_READONLY) != 0) return "it is read-only";
  constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  const SystemFile target(reinterpret_cast<intptr_t>(
      ::CreateFileW(path.c_str(), DELETE, kShareAll, nullptr, OPEN_EXISTING, 0, nullptr)));
  return target.is_open() ? "" : ErrorText(LastError());
}

bool AtomicFile::StartNameless() {
  CreateNamed();
  RemoveOnClose(file_, true);
  return true;
}

void AtomicFile::GiveName() {}  // it has one

AtomicFile::~AtomicFile() {
  if (file_.is_open()) {
    RemoveOnClose(file_, true);
  } else if (!temporary_.empty()) {
    ::DeleteFileW(SystemPath(temporary_).c_str());
  }
}

// Many programs, ONNX Runtime among them, do not read a file that someone may write.
std::filesystem::path AtomicFile::ReadablePath(bool) {
  RemoveOnClose(file_, false);
  std::error_code error;
  file_.Flush(error);
  if (!error) file_.Close(error);
  if (error) FailIo("write", error);
  return temporary_;
}

void AtomicFile::PutInPlace(std::error_code& error) {
  if (file_.is_open()) {
    RemoveOnClose(file_, false);
    file_.Close(error);
  }
  const std::filesystem::path from = SystemPath(temporary_), to = SystemPath(path_);
  for (int tries = 1; !error; ++tries) {
    if (::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING) != 0) return;
    const std::error_code why = LastError();
    if (tries == kMostTries || !IsPassing(static_cast<DWORD>(why.value()))) error = why;
    ::Sleep(kPauseMs);
  }
}

}  // namespace bitpress
