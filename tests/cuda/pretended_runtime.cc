// TEST ONLY. A libcudart.so.13 without a GPU, on which the unmodified onnxruntime-gpu creates its
// CUDA provider (pretended.sh builds it; pretended_driver.cc runs our kernels). It has what the
// provider calls, and answers what makes it go on.
//
// The host cannot touch the memory of the device: its addresses have no access rights, and copies
// and kernels reach it through a second mapping. Work on a stream waits until somebody
// synchronizes, so that a missing synchronization shows. New memory holds no zeros.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kBytes = size_t{4} << 30;
constexpr size_t kGap = 512;  // behind each allocation
constexpr int kUnlikely = 0xAB;

std::recursive_mutex& Mutex() {
  static auto& mutex = *new std::recursive_mutex;
  return mutex;
}

class DeviceMemory {
 public:
  DeviceMemory() {
    const int file = memfd_create("pretended", 0);
    if (ftruncate(file, kBytes) != 0) std::abort();
    device_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0));
    alias_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0));
    close(file);
  }
  bool Holds(const void* address) const { return address >= device_ && address < device_ + kBytes; }
  // Returns where the processor reaches an address of the device or the host.
  void* Reach(const void* address) const {
    if (!Holds(address)) return const_cast<void*>(address);
    return alias_ + (static_cast<const char*>(address) - device_);
  }
  int64_t distance() const { return alias_ - device_; }
  const std::map<uint64_t, size_t>& used() const { return used_; }

  // Returns null if there is no room.
  void* Allocate(size_t bytes) {
    const size_t needed = (bytes + kGap - 1) / kGap * kGap + kGap;
    const auto begin = reinterpret_cast<uint64_t>(device_);
    uint64_t at = begin;
    for (const auto& [address, size] : used_) {
      if (address - at >= needed) break;
      at = address + size;
    }
    if (at + needed > begin + kBytes) return nullptr;
    used_[at] = needed;
    void* const memory = reinterpret_cast<void*>(at);
    std::memset(Reach(memory), kUnlikely, bytes);
    return memory;
  }
  void Free(void* address) { used_.erase(reinterpret_cast<uint64_t>(address)); }

 private:
  char* device_ = nullptr;
  char* alias_ = nullptr;
  std::map<uint64_t, size_t> used_;
};

DeviceMemory& TheMemory() {
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}
// Memory of the host that copies may read later.
std::map<const void*, size_t>& Pinned() {
  static auto& pinned = *new std::map<const void*, size_t>;
  return pinned;
}

struct Stream {
  std::deque<std::function<void()>> queue;
};
struct Event {
  Stream* stream = nullptr;
};
Stream& NullStream() {
  static Stream& stream = *new Stream;
  return stream;
}
std::set<Stream*>& Streams() {
  static auto& streams = *new std::set<Stream*>{&NullStream()};
  return streams;
}
Stream* StreamOf(cudaStream_t stream) {
  const bool is_null =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  return is_null ? &NullStream() : reinterpret_cast<Stream*>(stream);
}
void Finish(Stream* stream) {
  while (!stream->queue.empty()) {
    const auto work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
  }
}
void FinishAll() {
  for (Stream* stream : Streams()) Finish(stream);
}
void Enqueue(cudaStream_t stream, std::function<void()> work) {
  StreamOf(stream)->queue.push_back(std::move(work));
}
std::map<const void*, std::string>& KernelNames() {
  static auto& names = *new std::map<const void*, std::string>;
  return names;
}

}  // namespace

#define PRETENDED(Type) extern "C" __attribute__((visibility("default"))) Type
#define LOCKED const std::lock_guard<std::recursive_mutex> lock(Mutex())

// --- The device
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t) cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
PRETENDED(cudaError_t) cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
PRETENDED(cudaError_t) cudaSetDevice(int) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
PRETENDED(cudaError_t) cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
PRETENDED(cudaError_t) cudaGetLastError() { return cudaSuccess; }
PRETENDED(cudaError_t) cudaPeekAtLastError() { return cudaSuccess; }
PRETENDED(const char*) cudaGetErrorName(cudaError_t) { return "pretended"; }
PRETENDED(const char*) cudaGetErrorString(cudaError_t) { return "a pretended error"; }

PRETENDED(cudaError_t) cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "pretended GPU");
  p->totalGlobalMem = kBytes;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 101376;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 8;
  p->multiProcessorCount = 4;
  p->maxThreadsPerMultiProcessor = 2048;
  p->memoryBusWidth = 256;
  p->l2CacheSize = 1 << 20;
  p->unifiedAddressing = 1;
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  const std::map<cudaDeviceAttr, int> values = {
      {cudaDevAttrComputeCapabilityMajor, p.major},
      {cudaDevAttrComputeCapabilityMinor, p.minor},
      {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
      {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
      {cudaDevAttrWarpSize, p.warpSize},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<int>(p.sharedMemPerBlock)},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<int>(p.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return cudaSuccess;
}

// --- Memory
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t) cudaMalloc(void** memory, size_t bytes) {
  LOCKED;
  *memory = TheMemory().Allocate(bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
PRETENDED(cudaError_t) cudaFree(void* memory) {
  LOCKED;
  FinishAll();
  TheMemory().Free(memory);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
PRETENDED(cudaError_t)
cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
PRETENDED(cudaError_t) cudaMallocHost(void** memory, size_t bytes) {
  LOCKED;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  Pinned()[*memory] = bytes;
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}
PRETENDED(cudaError_t) cudaFreeHost(void* memory) {
  LOCKED;
  FinishAll();
  Pinned().erase(memory);
  std::free(memory);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemGetInfo(size_t* free, size_t* total) {
  *free = kBytes / 2;
  *total = kBytes;
  return cudaSuccess;
}
PRETENDED(cudaError_t)
cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = TheMemory().Holds(memory) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  attributes->devicePointer = const_cast<void*>(memory);
  return cudaSuccess;
}

// --- Copies
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t) cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  LOCKED;
  FinishAll();
  std::memcpy(TheMemory().Reach(to), TheMemory().Reach(from), bytes);
  return cudaSuccess;
}
PRETENDED(cudaError_t)
cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                cudaStream_t stream) {
  LOCKED;
  bool is_pageable = !TheMemory().Holds(from);
  for (const auto& [memory, size] : Pinned()) {
    if (from >= memory && from < static_cast<const char*>(memory) + size) is_pageable = false;
  }
  if (is_pageable && kind == cudaMemcpyHostToDevice) {
    // CUDA reads pageable memory before it returns.
    const auto* const bytes_of = static_cast<const char*>(from);
    auto copy = std::make_shared<std::vector<char>>(bytes_of, bytes_of + bytes);
    Enqueue(stream, [=] { std::memcpy(TheMemory().Reach(to), copy->data(), bytes); });
  } else {
    Enqueue(stream, [=] { std::memcpy(TheMemory().Reach(to), TheMemory().Reach(from), bytes); });
  }
  return cudaSuccess;
}
PRETENDED(cudaError_t)
cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                  size_t height, cudaMemcpyKind, cudaStream_t stream) {
  LOCKED;
  Enqueue(stream, [=] {
    for (size_t i = 0; i < height; ++i) {
      std::memcpy(static_cast<char*>(TheMemory().Reach(to)) + i * to_pitch,
                  static_cast<const char*>(TheMemory().Reach(from)) + i * from_pitch, width);
    }
  });
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemset(void* memory, int value, size_t bytes) {
  LOCKED;
  FinishAll();
  std::memset(TheMemory().Reach(memory), value, bytes);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  LOCKED;
  Enqueue(stream, [=] { std::memset(TheMemory().Reach(memory), value, bytes); });
  return cudaSuccess;
}

// --- Streams and events
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t) cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  LOCKED;
  auto* const made = new Stream;
  Streams().insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, 0);
}
PRETENDED(cudaError_t) cudaStreamDestroy(cudaStream_t stream) {
  LOCKED;
  Stream* const of = StreamOf(stream);
  Finish(of);
  if (of != &NullStream()) {
    Streams().erase(of);
    delete of;
  }
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaStreamSynchronize(cudaStream_t stream) {
  LOCKED;
  Finish(StreamOf(stream));
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaDeviceSynchronize() {
  LOCKED;
  FinishAll();
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
PRETENDED(cudaError_t) cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  reinterpret_cast<Event*>(event)->stream = StreamOf(stream);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
PRETENDED(cudaError_t) cudaEventSynchronize(cudaEvent_t event) {
  LOCKED;
  Stream* const stream = reinterpret_cast<Event*>(event)->stream;
  if (stream != nullptr) Finish(stream);
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return cudaEventSynchronize(event);
}
PRETENDED(cudaError_t) cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) {
  return *time = 0, cudaSuccess;
}
PRETENDED(cudaError_t) cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  LOCKED;
  Enqueue(stream, [=] { function(data); });
  return cudaSuccess;
}

// --- What there is not
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t) cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
PRETENDED(cudaError_t) cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return *pool = reinterpret_cast<cudaMemPool_t>(new int), cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaMemcpyFromSymbol(void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
PRETENDED(cudaError_t) cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
PRETENDED(cudaError_t)
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t,
                                                       unsigned) {
  return *blocks = 1, cudaSuccess;
}
PRETENDED(cudaError_t)
cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                 cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  if (result != nullptr) *result = cudaDriverEntryPointSymbolNotFound;
  return cudaErrorSymbolNotFound;
}
PRETENDED(cudaError_t)
cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
                    cudaLibraryOption*, void**, unsigned) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) {
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t) cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
PRETENDED(cudaError_t) cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return cudaErrorNotSupported;
}

// --- The provider's own kernels, which are machine code
// -----------------------------------------------------------------------------------------------------

PRETENDED(cudaError_t)
cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  std::fprintf(stderr, "pretended GPU: it cannot run the provider's kernel %s\n",
               KernelNames()[function].c_str());
  return cudaErrorNotSupported;
}
PRETENDED(cudaError_t)
__cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                   cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
PRETENDED(cudaError_t)
cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                            size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
PRETENDED(cudaError_t)
cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void** arguments) {
  return cudaLaunchKernel(function, {}, {}, arguments, 0, nullptr);
}
PRETENDED(cudaError_t) __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function)), cudaSuccess;
}
PRETENDED(unsigned) __cudaPushCallConfiguration(dim3, dim3, size_t, struct CUstream_st*) {
  return 0;
}
PRETENDED(cudaError_t) __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return cudaSuccess;
}
PRETENDED(void**) __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
PRETENDED(void) __cudaRegisterFatBinaryEnd(void**) {}
PRETENDED(void) __cudaUnregisterFatBinary(void**) {}
PRETENDED(void)
__cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*,
                       dim3*, dim3*, int*) {
  LOCKED;
  KernelNames()[function] = name;
}
PRETENDED(void) __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

// --- For pretended_driver.cc
// -----------------------------------------------------------------------------------------------------

PRETENDED(void) pretend_enqueue(void* stream, void (*function)(void*), void* data) {
  LOCKED;
  Enqueue(static_cast<cudaStream_t>(stream), [=] { function(data); });
}
PRETENDED(void)
pretend_memory(void (*each)(uint64_t, size_t, void*), void* data, int64_t* distance) {
  LOCKED;
  *distance = TheMemory().distance();
  for (const auto& [address, size] : TheMemory().used()) each(address, size - kGap, data);
}
PRETENDED(int) pretend_copy(void* to, const void* from, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
