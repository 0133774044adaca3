#include "base/posix/file_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/system_error.h"

namespace bitpress::posix {

std::error_code ReserveBytes(int descriptor, size_t size) {
  fstore_t store{};
  store.fst_flags = F_ALLOCATEALL;
  store.fst_posmode = F_PEOFPOSMODE;
  store.fst_length = static_cast<off_t>(size);
  const bool is_reserved = ::fcntl(descriptor, F_PREALLOCATE, &store) != -1 &&
                           ::ftruncate(descriptor, store.fst_length) == 0;
  return is_reserved ? std::error_code() : LastError();
}

// The system does not tell, so that nothing is released.
bool AreUnchangedPages(uintptr_t, size_t) { return false; }

}  // namespace bitpress::posix
