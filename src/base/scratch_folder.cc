#include "base/scratch_folder.h"

#include <random>
#include <string>
#include <system_error>

#include "base/child_process.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"

namespace bitpress {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = PathOf("/tmp");
  std::random_device random;
  do {
    path_ = parent / fmt::format("bitpress-{:08x}", random());
    error = MakePrivateFolder(path_);
  } while (error == std::errc::file_exists);
  if (error) {
    Fail(ErrorCode::kIo, "cannot create a temporary folder in '{}': {}", PathText(parent),
         ErrorText(error));
  }
}

ScratchFolder::ScratchFolder(const fs::path& beside) {
  for (int number = 0;; ++number) {
    path_ = WithSuffix(beside, fmt::format(".{}-{}", ProcessNumber(), number));
    std::error_code error;
    if (fs::create_directory(SystemPath(path_), error)) return;
    if (error && error != std::errc::file_exists) {
      Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(beside), ErrorText(error));
    }
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(SystemPath(path_), ignored);
}

}  // namespace bitpress
