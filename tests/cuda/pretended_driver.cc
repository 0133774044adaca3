// TEST ONLY. A libcuda.so.1 that runs our kernels' PTX on the processor (cuda/test_ptx_machine.h),
// so that what calls the driver can be tested without a GPU. Work is done at once, whatever the
// stream. Environment, for tests of errors: PRETENDED_CUDA_VERSION (12080), PRETENDED_CUDA_FAILS
// (the name of a function that fails).
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "cuda/launch.h"
#include "cuda/test_ptx_machine.h"

namespace {

constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500, kLaunchFailed = 719;

std::mutex mutex;
std::map<uint64_t, size_t>& Allocations() {
  static auto& allocations = *new std::map<uint64_t, size_t>;
  return allocations;
}

int Result(std::string_view function) {
  const char* const fails = std::getenv("PRETENDED_CUDA_FAILS");
  return fails != nullptr && function == fails ? kLaunchFailed : kOk;
}

// The pretended runtime, if it is loaded.
struct Runtime {
  void (*enqueue)(void*, void (*)(void*), void*) = nullptr;
  void (*memory)(void (*)(uint64_t, size_t, void*), void*, int64_t*) = nullptr;
  int (*copy)(void*, uint64_t, size_t) = nullptr;
  int (*copy_inside)(uint64_t, uint64_t, size_t, int, void*) = nullptr;

  Runtime() {
    void* const so = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (so == nullptr) return;
    enqueue = reinterpret_cast<decltype(enqueue)>(dlsym(so, "pretend_enqueue"));
    memory = reinterpret_cast<decltype(memory)>(dlsym(so, "pretend_memory"));
    copy = reinterpret_cast<decltype(copy)>(dlsym(so, "pretend_copy"));
    copy_inside = reinterpret_cast<decltype(copy_inside)>(dlsym(so, "cudaMemcpyAsync"));
  }
};
const Runtime& TheRuntime() {
  static const Runtime runtime;
  return runtime;
}

void* const kHandle = reinterpret_cast<void*>(uintptr_t{16});

}  // namespace

#define PRETENDED extern "C" __attribute__((visibility("default"))) int

PRETENDED cuTensorMapEncodeTiled() {
  return kInvalidValue;
}  // ONNX Runtime asks for it at its load
PRETENDED cuInit(unsigned) { return Result("cuInit"); }
PRETENDED cuDriverGetVersion(int* version) {
  const char* const wanted = std::getenv("PRETENDED_CUDA_VERSION");
  *version = wanted != nullptr ? std::atoi(wanted) : 12080;
  return kOk;
}
PRETENDED cuGetErrorString(int error, const char** text) {
  *text = error == kLaunchFailed ? "unspecified launch failure" : "a pretended error";
  return kOk;
}
PRETENDED cuDeviceGet(int* device, int) { return *device = 0, kOk; }
PRETENDED cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "pretended GPU", static_cast<size_t>(size));
  return kOk;
}
PRETENDED cuDeviceGetAttribute(int* value, int, int) { return *value = 7, kOk; }
PRETENDED cuDevicePrimaryCtxRetain(void** context, int) { return *context = kHandle, kOk; }
PRETENDED cuCtxSetCurrent(void*) { return kOk; }
PRETENDED cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  const std::lock_guard lock(mutex);
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return kOutOfMemory;
  *address = reinterpret_cast<uint64_t>(memory);
  Allocations()[*address] = bytes;
  return kOk;
}
PRETENDED cuMemFree_v2(uint64_t address) {
  const std::lock_guard lock(mutex);
  if (Allocations().erase(address) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return kOk;
}
PRETENDED cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return kOk;
}
PRETENDED cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kOk;
}
PRETENDED cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  if (TheRuntime().copy != nullptr) return TheRuntime().copy(to, from, bytes);
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kOk;
}
PRETENDED cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  constexpr int kDeviceToDevice = 3;
  if (TheRuntime().copy_inside != nullptr) {
    return TheRuntime().copy_inside(to, from, bytes, kDeviceToDevice, stream);
  }
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return kOk;
}
PRETENDED cuStreamCreate(void** stream, unsigned) { return *stream = kHandle, kOk; }
PRETENDED cuStreamSynchronize(void*) { return kOk; }
PRETENDED cuEventCreate(void** event, unsigned) { return *event = kHandle, kOk; }
PRETENDED cuEventRecord(void*, void*) { return kOk; }
PRETENDED cuEventSynchronize(void*) { return kOk; }
PRETENDED cuEventElapsedTime(float* milliseconds, void*, void*) {
  return *milliseconds = 1.0f, kOk;
}
PRETENDED cuLibraryLoadData(void** library, const void* code, void*, void**, unsigned, void*,
                            void**, unsigned) {
  *library = kHandle;
  // The translated kernels must be those that are loaded.
  const bool is_ours =
      std::strcmp(static_cast<const char*>(code), bitpress::cuda::KernelText()) == 0;
  return is_ours ? Result("cuLibraryLoadData") : kInvalidValue;
}
PRETENDED cuLibraryGetKernel(void** kernel, void*, const char* name) {
  for (const auto& of : bitpress::cuda::TranslatedKernels()) {
    if (of.name != name) continue;
    *kernel = const_cast<bitpress::cuda::TranslatedKernel*>(&of);
    return Result("cuLibraryGetKernel");
  }
  return kNotFound;
}

namespace {

struct PretendedLaunch {
  const bitpress::cuda::TranslatedKernel* kernel;
  unsigned grid, block;
  std::vector<uint8_t> parameters;
};

void AddRegion(uint64_t address, size_t bytes, void* regions) {
  static_cast<std::vector<bitpress::cuda::Region>*>(regions)->push_back(
      {reinterpret_cast<const void*>(address), bytes, 1, true});
}

// Runs a launch. Throws std::runtime_error if the machine notices a mistake.
void RunLaunch(const PretendedLaunch& launch) {
  std::vector<bitpress::cuda::Region> regions;
  bitpress::cuda::Machine machine;
  int64_t distance = 0;
  if (TheRuntime().memory != nullptr) {
    TheRuntime().memory(AddRegion, &regions, &distance);
  } else {
    const std::lock_guard lock(mutex);
    for (const auto& [address, bytes] : Allocations()) AddRegion(address, bytes, &regions);
  }
  machine.set_distance(distance);
  machine.Launch(*launch.kernel, launch.grid, launch.block, launch.parameters.data(), regions);
}

void RunLater(void* work) {
  const std::unique_ptr<PretendedLaunch> launch(static_cast<PretendedLaunch*>(work));
  try {
    RunLaunch(*launch);
  } catch (const std::exception& error) {
    // A device reports it at some later call; a test is to end.
    std::fprintf(stderr, "pretended GPU: %s\n", error.what());
    std::abort();
  }
}

}  // namespace

PRETENDED cuLaunchKernel(void* kernel, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                         unsigned, unsigned, void* stream, void** parameters, void**) {
  if (const int failed = Result("cuLaunchKernel")) return failed;
  const auto& of = *static_cast<const bitpress::cuda::TranslatedKernel*>(kernel);
  const auto* const bytes = static_cast<const uint8_t*>(parameters[0]);
  auto launch = std::make_unique<PretendedLaunch>(
      PretendedLaunch{&of, grid, block, {bytes, bytes + of.parameter_bytes}});
  if (TheRuntime().enqueue != nullptr) {
    TheRuntime().enqueue(stream, RunLater, launch.release());
    return kOk;
  }
  try {
    RunLaunch(*launch);
    return kOk;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pretended GPU: %s\n", error.what());
    return kLaunchFailed;
  }
}
