#include "base/scratch_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"

namespace bitpress {

ScratchFolder::ScratchFolder() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string name = (error ? std::filesystem::path("/tmp") : parent) / "bitpress-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    Fail(ErrorCode::kIo, "cannot create a temporary folder in '{}': {}", parent.string(),
         std::generic_category().message(errno));
  }
  path_ = name;
}

ScratchFolder::ScratchFolder(const std::filesystem::path& beside) {
  for (int number = 0;; ++number) {
    path_ = fmt::format("{}.{}-{}", beside.string(), ::getpid(), number);
    if (::mkdir(path_.c_str(), 0777) == 0) return;
    if (errno == EEXIST) continue;
    Fail(ErrorCode::kIo, "cannot write '{}': {}", beside.string(),
         std::generic_category().message(errno));
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace bitpress
