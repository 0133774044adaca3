#include "base/system_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/system_error.h"

namespace bitpress {
namespace {

int DescriptorOf(const SystemFile& file) { return static_cast<int>(file.handle()); }

struct stat StatusOf(const SystemFile& file) {
  struct stat status {};
  if (::fstat(DescriptorOf(file), &status) != 0) status = {};
  return status;
}

}  // namespace

SystemFile::SystemFile(const std::filesystem::path& path, Use use, std::error_code& error) {
  int flags = O_CLOEXEC;
  switch (use) {
    case Use::kRead:
      flags |= O_RDONLY;
      break;
    case Use::kReadRegular:
      flags |= O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
      break;
    case Use::kCreate:
    case Use::kCreatePrivate:
      flags |= O_CREAT | O_EXCL | O_RDWR;
      break;
    case Use::kReplace:
      flags |= O_CREAT | O_WRONLY | O_TRUNC;
      break;
  }
  handle_ = ::open(path.c_str(), flags, use == Use::kCreate ? 0666 : 0600);
  if (!is_open()) error = LastError();
}

SystemFile::~SystemFile() {
  if (is_open()) ::close(DescriptorOf(*this));
}

SystemFile::Kind SystemFile::kind() const {
  const mode_t mode = StatusOf(*this).st_mode;
  return S_ISREG(mode) ? Kind::kRegular : S_ISDIR(mode) ? Kind::kFolder : Kind::kOther;
}

uint64_t SystemFile::num_bytes() const { return static_cast<uint64_t>(StatusOf(*this).st_size); }

size_t SystemFile::Read(void* data, size_t size, std::error_code& error) {
  // Linux reads and writes at most 2 GiB a call.
  ssize_t count = 0;
  do {
    count = ::read(DescriptorOf(*this), data, std::min(size, size_t{1} << 30));
  } while (count < 0 && errno == EINTR);
  if (count < 0) error = LastError();
  return static_cast<size_t>(std::max<ssize_t>(count, 0));
}

void SystemFile::Write(const void* data, size_t size, std::error_code& error) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(DescriptorOf(*this), bytes, std::min(size, size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      error = LastError();
      return;
    }
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

void SystemFile::Flush(std::error_code& error) {
  if (::fsync(DescriptorOf(*this)) != 0) error = LastError();
}

void SystemFile::Close(std::error_code& error) {
  if (::close(static_cast<int>(std::exchange(handle_, kNone))) != 0) error = LastError();
}

std::optional<FileStamp> StampOf(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
#ifdef __APPLE__
  const timespec& changed = status.st_mtimespec;
#else
  const timespec& changed = status.st_mtim;
#endif
  return FileStamp{static_cast<uint64_t>(status.st_dev), status.st_ino,
                   static_cast<uint64_t>(status.st_size), changed.tv_sec, changed.tv_nsec};
}

std::error_code ResizeFile(const std::filesystem::path& path, uint64_t num_bytes) {
  std::error_code error;
  std::filesystem::resize_file(path, num_bytes, error);
  return error;
}

std::error_code WhyUnreadable(const std::filesystem::path& path) {
  return ::access(path.c_str(), R_OK) == 0 ? std::error_code() : LastError();
}

bool IsProgram(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::error_code MakePrivateFolder(const std::filesystem::path& path) {
  return ::mkdir(path.c_str(), 0700) == 0 ? std::error_code() : LastError();
}

}  // namespace bitpress
