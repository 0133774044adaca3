#include "base/paths.h"

#include <windows.h>

#include <algorithm>

#include "base/windows/wide.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

// A path with this prefix goes to the file system as it is, however long it is.
constexpr std::wstring_view kVerbatim = LR"(\\?\)", kVerbatimShare = LR"(\\?\UNC\)";
constexpr size_t kLongestPath = MAX_PATH - 12;  // of folders, which need room for a short name
constexpr size_t kRoomForNames = 80;

// Returns the path verbatim if its full form is longer than `longest`.
fs::path VerbatimIfLonger(const fs::path& path, size_t longest) {
  const std::wstring& given = path.native();
  if (given.empty() || given.starts_with(LR"(\\.\)")) return path;
  if (given.starts_with(kVerbatim)) return fs::path(given).make_preferred();
  const bool is_whole = path.is_absolute();
  if (given.size() + (is_whole ? 0 : ::GetCurrentDirectoryW(0, nullptr)) <= longest) return path;
  std::wstring full(::GetFullPathNameW(given.c_str(), 0, nullptr, nullptr), L'\0');
  full.resize(
      ::GetFullPathNameW(given.c_str(), static_cast<DWORD>(full.size()), full.data(), nullptr));
  if (full.size() <= longest || full.starts_with(kVerbatim)) return path;
  if (full.starts_with(LR"(\\)")) return std::wstring(kVerbatimShare) + full.substr(2);
  return std::wstring(kVerbatim) + full;
}

}  // namespace

namespace windows {

std::wstring Wide(std::string_view text) {
  const auto size = static_cast<int>(text.size());
  std::wstring wide(text.size(), L'\0');  // no character takes more units than bytes
  wide.resize(static_cast<size_t>(
      text.empty() ? 0 : ::MultiByteToWideChar(CP_UTF8, 0, text.data(), size, wide.data(), size)));
  return wide;
}

std::string Narrow(std::wstring_view text) {
  const auto size = static_cast<int>(text.size());
  std::string narrow(3 * text.size(), '\0');  // no unit takes more bytes
  narrow.resize(static_cast<size_t>(
      text.empty() ? 0
                   : ::WideCharToMultiByte(CP_UTF8, 0, text.data(), size, narrow.data(),
                                           static_cast<int>(narrow.size()), nullptr, nullptr)));
  return narrow;
}

}  // namespace windows

std::string PathText(const fs::path& path) {
  const std::wstring& text = path.native();
  if (text.starts_with(kVerbatimShare)) {
    return windows::Narrow(LR"(\\)" + text.substr(kVerbatimShare.size()));
  }
  return windows::Narrow(text.starts_with(kVerbatim) ? text.substr(kVerbatim.size()) : text);
}

std::string PortablePathText(const fs::path& path) {
  std::string text = PathText(path);
  std::ranges::replace(text, '\\', '/');
  return text;
}

fs::path PathOf(std::string_view text) {
  return VerbatimIfLonger(windows::Wide(text), kLongestPath - kRoomForNames);
}

fs::path SystemPath(const fs::path& path) { return VerbatimIfLonger(path, kLongestPath); }

}  // namespace bitpress
