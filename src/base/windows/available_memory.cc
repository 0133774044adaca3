#include "base/available_memory.h"

#include <windows.h>

#include <psapi.h>

#include <algorithm>

namespace bitpress {

std::optional<uint64_t> AvailableMemory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  if (::GlobalMemoryStatusEx(&status) == 0) return std::nullopt;
  uint64_t available = std::min(status.ullAvailPhys, status.ullAvailPageFile);
  // A job bounds a process as a control group does.
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION job{};
  PROCESS_MEMORY_COUNTERS used{};
  if (::QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation, &job, sizeof(job),
                                  nullptr) != 0 &&
      ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &used, sizeof(used)) != 0) {
    const DWORD flags = job.BasicLimitInformation.LimitFlags;
    const auto bound = [&](DWORD flag, uint64_t limit) {
      if ((flags & flag) == 0) return;
      available = std::min(available, limit - std::min<uint64_t>(limit, used.PagefileUsage));
    };
    bound(JOB_OBJECT_LIMIT_PROCESS_MEMORY, job.ProcessMemoryLimit);
    bound(JOB_OBJECT_LIMIT_JOB_MEMORY, job.JobMemoryLimit);
  }
  return available;
}

std::optional<uint64_t> ResidentMemory() {
  PROCESS_MEMORY_COUNTERS used{};
  if (::K32GetProcessMemoryInfo(::GetCurrentProcess(), &used, sizeof(used)) == 0) {
    return std::nullopt;
  }
  return used.WorkingSetSize;
}

void KeepLargeBuffers() {}

void LimitMemory(uint64_t num_bytes) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_PROCESS_MEMORY;
  limits.ProcessMemoryLimit = num_bytes;
  // The handle stays open as long as the process, and with it the limit.
  const HANDLE job = ::CreateJobObjectW(nullptr, nullptr);
  if (job == nullptr) return;
  ::SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof(limits));
  ::AssignProcessToJobObject(job, ::GetCurrentProcess());
}

}  // namespace bitpress
