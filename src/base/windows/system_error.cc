#include "base/system_error.h"

#include <windows.h>

#include <algorithm>
#include <array>

#include "base/messages.h"
#include "base/windows/wide.h"

namespace bitpress {
namespace {

// The words of POSIX, which messages have elsewhere, for what users meet; where Windows has a
// reason of its own, that one.
struct Meaning {
  DWORD code;
  const char* text;
};
constexpr std::array kMeanings{
    Meaning{ERROR_FILE_NOT_FOUND, "No such file or directory"},
    Meaning{ERROR_PATH_NOT_FOUND, "No such file or directory"},
    Meaning{ERROR_INVALID_DRIVE, "No such file or directory"},
    Meaning{ERROR_BAD_NETPATH, "No such file or directory"},
    Meaning{ERROR_ACCESS_DENIED, "Permission denied"},
    Meaning{ERROR_SHARING_VIOLATION, "another program has the file open"},
    Meaning{ERROR_LOCK_VIOLATION, "another program has the file open"},
    Meaning{ERROR_USER_MAPPED_FILE, "another program has the file open"},
    Meaning{ERROR_DISK_FULL, "No space left on device"},
    Meaning{ERROR_HANDLE_DISK_FULL, "No space left on device"},
    Meaning{ERROR_DISK_QUOTA_EXCEEDED, "Disk quota exceeded"},
    Meaning{ERROR_WRITE_PROTECT, "Read-only file system"},
    Meaning{ERROR_FILE_EXISTS, "File exists"},
    Meaning{ERROR_ALREADY_EXISTS, "File exists"},
    Meaning{ERROR_DIRECTORY, "Not a directory"},
    Meaning{ERROR_FILENAME_EXCED_RANGE, "File name too long"},
    Meaning{ERROR_INVALID_NAME, "Windows does not allow this name"},
    Meaning{ERROR_CANT_RESOLVE_FILENAME, "Too many levels of symbolic links"},
    Meaning{ERROR_NOT_ENOUGH_MEMORY, "Cannot allocate memory"},
    Meaning{ERROR_COMMITMENT_LIMIT, "Cannot allocate memory"},
};

}  // namespace

std::string ErrorText(const std::error_code& error) {
  if (error.category() != std::system_category()) return error.message();
  const auto code = static_cast<DWORD>(error.value());
  const auto* const known =
      std::ranges::find_if(kMeanings, [&](const Meaning& meaning) { return meaning.code == code; });
  if (known != kMeanings.end()) return known->text;
  std::array<wchar_t, 512> text{};
  constexpr DWORD kEnglish = 0x0409;
  constexpr DWORD kFlags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
  DWORD size = 0;
  for (const DWORD language : {kEnglish, DWORD{0}}) {  // English need not be installed
    if (size == 0) {
      size = ::FormatMessageW(kFlags, nullptr, code, language, text.data(),
                              static_cast<DWORD>(text.size()), nullptr);
    }
  }
  return size == 0 ? "error " + std::to_string(code)
                   : OneLine(windows::Narrow({text.data(), static_cast<size_t>(size)}));
}

std::error_code LastError() { return {static_cast<int>(::GetLastError()), std::system_category()}; }

}  // namespace bitpress
