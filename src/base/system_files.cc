#include "base/system_files.h"

#include <utility>

namespace bitpress {

SystemFile::SystemFile(SystemFile&& other) noexcept
    : handle_(std::exchange(other.handle_, kNone)) {}

SystemFile& SystemFile::operator=(SystemFile&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

}  // namespace bitpress
