#include "base/atomic_file.h"

#include <utility>

#include "base/child_process.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"

namespace bitpress {

namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path path, Start start) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) {
    Fail(ErrorCode::kIo, "cannot write '{}': it is a folder", PathText(path_));
  }
  if (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored)) {
    Fail(ErrorCode::kIo, "cannot write '{}': it is no file but a device or a pipe",
         PathText(path_));
  }
  path_ = FollowLink(path_);
  if (const std::string why = WhyNotReplaceable(); !why.empty()) {
    Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(path_), why);
  }
  // Errors such as a missing folder come again in CreateNamed, which throws them.
  if (start == Start::kNamed || !StartNameless()) CreateNamed();
}

void AtomicFile::CreateNamed() {
  for (int number = 0;; ++number) {
    const fs::path name = NumberedName(number);
    std::error_code error;
    file_ = SystemFile(name, SystemFile::Use::kCreate, error);
    if (file_.is_open()) {
      temporary_ = name;
      return;
    }
    if (error != std::errc::file_exists) FailIo("create", error);
  }
}

fs::path AtomicFile::NumberedName(int number) const {
  return WithSuffix(path_, fmt::format(".{}-{}", ProcessNumber(), number));
}

void AtomicFile::FailIo(std::string_view action, const std::error_code& error) const {
  Fail(ErrorCode::kIo, "cannot {} '{}': {}", action, PathText(path_), ErrorText(error));
}

void AtomicFile::Write(const void* data, size_t num_bytes) {
  std::error_code error;
  file_.Write(data, num_bytes, error);
  if (error) FailIo("write", error);
}

void AtomicFile::Commit(Durability durability) {
  std::error_code error;
  if (durability == Durability::kOnDisk && file_.is_open()) file_.Flush(error);
  if (error) FailIo("write", error);
  if (temporary_.empty()) GiveName();
  PutInPlace(error);
  if (error) FailIo("write", error);
  temporary_.clear();
}

fs::path FollowLink(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  if (error) {
    Fail(ErrorCode::kIo, "cannot write '{}': the link cannot be followed: {}", PathText(path),
         ErrorText(error));
  }
  return target;
}

void CheckWritable(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    Fail(ErrorCode::kIo, "'{}' is a folder, not a file to write to", PathText(path));
  }
  const AtomicFile probe(path);
}

void WriteFile(const fs::path& path, std::string_view content, Durability durability) {
  AtomicFile file(path);
  file.Write(content);
  file.Commit(durability);
}

std::string ReadFile(const fs::path& path) {
  const auto fail = [&](std::string_view why) {
    Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path), why);
  };
  std::error_code error;
  SystemFile file(path, SystemFile::Use::kRead, error);
  if (error) fail(ErrorText(error));
  if (file.kind() == SystemFile::Kind::kFolder) fail("it is a folder");
  std::string content;
  char buffer[1 << 16];
  content.reserve(static_cast<size_t>(file.num_bytes()));
  while (true) {
    const size_t count = file.Read(buffer, sizeof buffer, error);
    if (error) fail(ErrorText(error));
    if (count == 0) return content;
    content.append(buffer, count);
  }
}

}  // namespace bitpress
