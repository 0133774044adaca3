// NVIDIA's driver, opened when the first kernel is made: a process that has no session on CUDA
// loads nothing of it. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "cuda/launch.h"

namespace bitpress::cuda {

class Driver {
 public:
  // Returns the driver with our kernels loaded. Throws Error(kUnsupported) if there is no driver,
  // it is too old (CUDA 12.0 is needed) or it refuses the kernels; a later call tries again.
  static Driver& Get();

  // Puts a launch on a stream. The null stream is that of the current context. Throws
  // Error(kUnsupported) with the driver's words, also for errors of earlier work on the device.
  // REQUIRES: !launch.is_empty().
  void Run(const Launch& launch, void* stream);

  // Copies on the device. Throws like Run.
  void CopyInside(void* to, const void* from, size_t bytes, void* stream);

  // Copies what is done on the device so far. Throws like Run.
  void CopyToHost(void* to, const void* from, size_t bytes);

 private:
  Driver();
  void Check(int result, const std::string& what) const;
  void* Kernel(const char* name);

  using Result = int;
  Result (*init_)(unsigned) = nullptr;
  Result (*version_)(int*) = nullptr;
  Result (*load_)(void**, const void*, void*, void**, unsigned, void*, void**, unsigned) = nullptr;
  Result (*get_)(void**, void*, const char*) = nullptr;
  Result (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    void*, void**, void**) = nullptr;
  Result (*copy_)(void*, unsigned long long, size_t) = nullptr;
  Result (*copy_inside_)(unsigned long long, unsigned long long, size_t, void*) = nullptr;
  Result (*text_)(Result, const char**) = nullptr;
  void* library_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<std::string, void*> kernels_;
};

}  // namespace bitpress::cuda
