#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace bitpress {
namespace {

// Returns the path under which the system shows a file without a name.
std::string LinkOf(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, Start start) : path_(std::move(path)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) {
    Fail(ErrorCode::kIo, "cannot write '{}': it is a folder", path_.string());
  }
  if (std::filesystem::exists(path_, ignored) &&
      !std::filesystem::is_regular_file(path_, ignored)) {
    Fail(ErrorCode::kIo, "cannot write '{}': it is no file but a device or a pipe", path_.string());
  }
  path_ = FollowLink(path_);
  if (start == Start::kNamed) {
    CreateNamed();
    return;
  }
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 && ::access(LinkOf(descriptor_).c_str(), F_OK) == 0) return;
  // Other errors, such as a missing folder, come again in CreateNamed, which throws them.
  if (descriptor_ >= 0) ::close(descriptor_);
  CreateNamed();
}

void AtomicFile::CreateNamed() {
  for (int number = 0;; ++number) {
    const std::string name = NumberedName(number);
    // Unlike mkostemp, which makes files private, this gives the permissions of any new file.
    // Reading the mask of the process would change it for a moment, for all threads.
    descriptor_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) FailIo("create");
  }
}

std::string AtomicFile::NumberedName(int number) const {
  return path_.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(number);
}

// Gives the file a name of its own first, because linking cannot replace an existing file.
void AtomicFile::GiveName() {
  for (int number = 0;; ++number) {
    const std::string name = NumberedName(number);
    if (::linkat(AT_FDCWD, LinkOf(descriptor_).c_str(), AT_FDCWD, name.c_str(),
                 AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) FailIo("write");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::FailIo(std::string_view action) const {
  Fail(ErrorCode::kIo, "cannot {} '{}': {}", action, path_.string(), std::strerror(errno));
}

void AtomicFile::Write(const void* data, size_t num_bytes) {
  const char* bytes = static_cast<const char*>(data);
  while (num_bytes > 0) {
    // Linux writes at most 2 GiB a call.
    const ssize_t written = ::write(descriptor_, bytes, std::min(num_bytes, size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      FailIo("write");
    }
    bytes += written;
    num_bytes -= static_cast<size_t>(written);
  }
}

std::filesystem::path AtomicFile::ReadablePath(bool beside) {
  if (beside && temporary_.empty()) GiveName();
  if (!temporary_.empty()) return temporary_;
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_);
}

void AtomicFile::Commit(Durability durability) {
  if (durability == Durability::kOnDisk && ::fsync(descriptor_) != 0) FailIo("write");
  if (temporary_.empty()) GiveName();
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) FailIo("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) FailIo("write");
  temporary_.clear();
}

std::filesystem::path FollowLink(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  if (error) {
    Fail(ErrorCode::kIo, "cannot write '{}': the link cannot be followed: {}", path.string(),
         error.message());
  }
  return target;
}

void CheckWritable(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    Fail(ErrorCode::kIo, "'{}' is a folder, not a file to write to", path.string());
  }
  const AtomicFile probe(path);
}

void WriteFile(const std::filesystem::path& path, std::string_view content, Durability durability) {
  AtomicFile file(path);
  file.Write(content);
  file.Commit(durability);
}

std::string ReadFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    const int code = errno;
    if (descriptor >= 0) ::close(descriptor);
    Fail(ErrorCode::kIo, "cannot read '{}': {}", path.string(), std::strerror(code));
  }
  if (S_ISDIR(info.st_mode)) {
    ::close(descriptor);
    Fail(ErrorCode::kIo, "cannot read '{}': it is a folder", path.string());
  }
  std::string content;
  char buffer[1 << 16];
  if (info.st_size > 0) content.reserve(static_cast<size_t>(info.st_size));
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(descriptor);
      Fail(ErrorCode::kIo, "cannot read '{}': {}", path.string(), std::strerror(code));
    }
    if (count == 0) break;
    content.append(buffer, static_cast<size_t>(count));
  }
  ::close(descriptor);
  return content;
}

}  // namespace bitpress
