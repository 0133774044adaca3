// Pages of memory straight from the system, which huge_pages.h shares out.
#pragma once

#include <cstddef>

namespace bitpress {

constexpr size_t kHugePage = size_t{2} << 20;

// Returns zero bytes in huge pages if the system grants them, in usual pages otherwise. REQUIRES:
// `size` is a multiple of kHugePage. Throws std::bad_alloc.
std::byte* MapHugePages(size_t size);
void UnmapPages(std::byte* memory, size_t size);

}  // namespace bitpress
