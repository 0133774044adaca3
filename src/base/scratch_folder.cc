#include "base/scratch_folder.h"

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

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace bitpress
