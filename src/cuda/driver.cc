#include "cuda/driver.h"

#include <limits>
#include <memory>

#include "base/error.h"
#include "base/shared_library.h"

namespace bitpress::cuda {
namespace {

#ifdef _WIN32
constexpr const char* kDriverFile = "nvcuda.dll";
#else
constexpr const char* kDriverFile = "libcuda.so.1";
#endif
constexpr int kNeededVersion = 12000;

// Finds one of the driver's functions. A driver without it is older than CUDA 12.0.
template <class Function>
void Find(const SharedLibrary& driver, const char* name, Function& function) {
  function = reinterpret_cast<Function>(driver.Find(name));
  if (function == nullptr) {
    Fail(ErrorCode::kUnsupported,
         "the CUDA driver is too old: it lacks {}; a driver for CUDA 12.0 or later is needed (525 "
         "or later)",
         name);
  }
}

}  // namespace

Driver& Driver::Get() {
  // The driver stays open until the process ends, as ONNX Runtime's own use of it does.
  static std::mutex mutex;
  static Driver* driver = nullptr;
  const std::lock_guard lock(mutex);
  if (driver == nullptr) driver = std::unique_ptr<Driver>(new Driver()).release();
  return *driver;
}

Driver::Driver() {
  std::string why;
  const SharedLibrary driver(kDriverFile, why);
  if (!driver.is_open()) Fail(ErrorCode::kUnsupported, "there is no CUDA driver: {}", why);
  Find(driver, "cuGetErrorString", text_);
  Find(driver, "cuInit", init_);
  Find(driver, "cuDriverGetVersion", version_);
  Find(driver, "cuMemcpyDtoH_v2", copy_);
  Find(driver, "cuMemcpyDtoDAsync_v2", copy_inside_);
  Find(driver, "cuLaunchKernel", launch_);
  Check(init_(0), "the CUDA driver does not start");
  int version = 0;
  Check(version_(&version), "the CUDA driver does not say its version");
  if (version < kNeededVersion) {
    Fail(
        ErrorCode::kUnsupported,
        "the CUDA driver is too old: it is for CUDA {}.{}, and 12.0 or later is needed (driver 525 "
        "or later)",
        version / 1000, version % 1000 / 10);
  }
  Find(driver, "cuLibraryLoadData", load_);
  Find(driver, "cuLibraryGetKernel", get_);
  Check(load_(&library_, KernelText(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "the CUDA driver refuses our kernels");
}

void Driver::Check(int result, const std::string& what) const {
  if (result == 0) return;
  const char* text = nullptr;
  if (text_(result, &text) != 0 || text == nullptr) text = "unknown error";
  Fail(ErrorCode::kUnsupported, "{}: {} (CUDA error {})", what, text, result);
}

void* Driver::Kernel(const char* name) {
  const std::lock_guard lock(mutex_);
  void*& kernel = kernels_[name];
  if (kernel == nullptr) {
    Check(get_(&kernel, library_, name),
          std::string("the CUDA driver does not find the kernel ") + name);
  }
  return kernel;
}

void Driver::Run(const Launch& launch, void* stream) {
  if (launch.num_blocks > std::numeric_limits<int32_t>::max()) {
    Fail(ErrorCode::kUnsupported, "a tensor has more elements than a launch on CUDA takes");
  }
  // The driver copies the parameters before it returns.
  void* parameters = const_cast<void*>(launch.parameters());
  // A kernel of a library may stand for a function; its context is that of the stream.
  Check(launch_(Kernel(launch.kernel), static_cast<unsigned>(launch.num_blocks), 1, 1,
                launch.block_size, 1, 1, 0, stream, &parameters, nullptr),
        std::string("the kernel ") + launch.kernel +
            " does not start, or earlier work on the device failed");
}

void Driver::CopyInside(void* to, const void* from, size_t bytes, void* stream) {
  const auto address = [](const void* memory) {
    return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory));
  };
  Check(copy_inside_(address(to), address(from), bytes, stream),
        "a copy on the device does not start, or earlier work on the device failed");
}

void Driver::CopyToHost(void* to, const void* from, size_t bytes) {
  Check(copy_(to, reinterpret_cast<unsigned long long>(from), bytes),
        "a copy from the device fails, or earlier work on the device failed");
}

}  // namespace bitpress::cuda
