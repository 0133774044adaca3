// Linux and macOS do these each in its own way with the pages of files. For base/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <system_error>

namespace bitpress::posix {

// Makes an empty file `size` bytes long, with room on the disk for all of them.
std::error_code ReserveBytes(int descriptor, size_t size);

// Returns whether the pages lie in mappings of files, and none of them is a copy of this process,
// whose contents dropping would lose.
bool AreUnchangedPages(uintptr_t first_page, size_t num_pages);

}  // namespace bitpress::posix
