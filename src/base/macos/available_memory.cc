#include "base/available_memory.h"

#include <mach/mach.h>
#include <sys/resource.h>

#include <algorithm>

namespace bitpress {

std::optional<uint64_t> AvailableMemory() {
  vm_statistics64_data_t statistics{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const auto host = ::mach_host_self();
  vm_size_t page = 0;
  if (::host_page_size(host, &page) != KERN_SUCCESS ||
      ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&statistics),
                          &count) != KERN_SUCCESS) {
    return std::nullopt;
  }
  return uint64_t{page} * (uint64_t{statistics.free_count} + statistics.inactive_count);
}

std::optional<uint64_t> ResidentMemory() {
  mach_task_basic_info information{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (::task_info(::mach_task_self(), MACH_TASK_BASIC_INFO,
                  reinterpret_cast<task_info_t>(&information), &count) != KERN_SUCCESS) {
    return std::nullopt;
  }
  return information.resident_size;
}

void KeepLargeBuffers() {}

void LimitMemory(uint64_t num_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, num_bytes);
  ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace bitpress
