#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "base/system_error.h"

namespace bitpress {
namespace {

// Returns the path under which Linux shows a file without a name.
std::string LinkOf(const SystemFile& file) {
  return fmt::format("/proc/self/fd/{}", file.handle());
}

}  // namespace

std::string AtomicFile::WhyNotReplaceable() const { return ""; }

bool AtomicFile::StartNameless() {
#ifdef O_TMPFILE
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  file_ = SystemFile(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  return file_.is_open() && ::access(LinkOf(file_).c_str(), F_OK) == 0;
#else
  return false;
#endif
}

// Gives the file a name of its own first, because linking cannot replace an existing file.
void AtomicFile::GiveName() {
  for (int number = 0;; ++number) {
    const std::filesystem::path name = NumberedName(number);
    if (::linkat(AT_FDCWD, LinkOf(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    const std::error_code error = LastError();
    if (error != std::errc::file_exists) FailIo("write", error);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

std::filesystem::path AtomicFile::ReadablePath(bool beside) {
  if (beside && temporary_.empty()) GiveName();
  if (!temporary_.empty()) return temporary_;
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.handle());
}

void AtomicFile::PutInPlace(std::error_code& error) {
  file_.Close(error);
  if (!error && ::rename(temporary_.c_str(), path_.c_str()) != 0) error = LastError();
}

}  // namespace bitpress
