// TEST ONLY. The part of NVIDIA's driver that a test on a device needs beside cuda/driver.h: a
// context, memory, streams and events. It throws std::runtime_error with the driver's words.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace bitpress::cuda {

class Device {
 public:
  using Address = unsigned long long;

  // Opens the driver and takes the first device.
  Device() {
    so_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (so_ == nullptr)
      throw std::runtime_error(std::string("there is no CUDA driver: ") + dlerror());
    Call<int(unsigned)>("cuInit", 0u);
    Call<int(int*)>("cuDriverGetVersion", &version_);
    Call<int(int*, int)>("cuDeviceGet", &device_, 0);
    char name[256] = {};
    Call<int(char*, int, int)>("cuDeviceGetName", name, 256, device_);
    name_ = name;
    Call<int(void**, int)>("cuDevicePrimaryCtxRetain", &context_, device_);
    Use();
  }

  // Makes the device current in this thread.
  void Use() { Call<int(void*)>("cuCtxSetCurrent", context_); }

  const std::string& name() const { return name_; }
  int version() const { return version_; }
  int Attribute(int which) {
    int value = 0;
    Call<int(int*, int, int)>("cuDeviceGetAttribute", &value, which, device_);
    return value;
  }

  Address Allocate(size_t bytes) {
    Address address = 0;
    Call<int(Address*, size_t)>("cuMemAlloc_v2", &address, bytes);
    return address;
  }
  void Free(Address address) { Call<int(Address)>("cuMemFree_v2", address); }
  void Fill(Address address, unsigned char value, size_t bytes) {
    Call<int(Address, unsigned char, size_t)>("cuMemsetD8_v2", address, value, bytes);
  }
  void ToDevice(Address to, const void* from, size_t bytes) {
    Call<int(Address, const void*, size_t)>("cuMemcpyHtoD_v2", to, from, bytes);
  }
  void ToHost(void* to, Address from, size_t bytes) {
    Call<int(void*, Address, size_t)>("cuMemcpyDtoH_v2", to, from, bytes);
  }
  void CopyInside(Address to, Address from, size_t bytes, void* stream) {
    Call<int(Address, Address, size_t, void*)>("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
  }
  void* NewStream() {
    void* stream = nullptr;
    Call<int(void**, unsigned)>("cuStreamCreate", &stream,
                                1u);  // it does not wait for the null stream
    return stream;
  }
  void Synchronize(void* stream) { Call<int(void*)>("cuStreamSynchronize", stream); }
  void* NewEvent() {
    void* event = nullptr;
    Call<int(void**, unsigned)>("cuEventCreate", &event, 0u);
    return event;
  }
  void Record(void* event, void* stream) {
    Call<int(void*, void*)>("cuEventRecord", event, stream);
  }
  float Milliseconds(void* from, void* to) {
    Call<int(void*)>("cuEventSynchronize", to);
    float time = 0;
    Call<int(float*, void*, void*)>("cuEventElapsedTime", &time, from, to);
    return time;
  }

 private:
  template <class Signature, class... Arguments>
  void Call(const char* name, Arguments... arguments) {
    auto* const function = reinterpret_cast<Signature*>(dlsym(so_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver lacks ") + name);
    const int result = function(arguments...);
    if (result == 0) return;
    auto* const text = reinterpret_cast<int (*)(int, const char**)>(dlsym(so_, "cuGetErrorString"));
    const char* words = nullptr;
    if (text == nullptr || text(result, &words) != 0 || words == nullptr) words = "unknown error";
    throw std::runtime_error(std::string(name) + ": " + words);
  }

  void* so_ = nullptr;
  void* context_ = nullptr;
  int device_ = 0;
  int version_ = 0;
  std::string name_;
};

}  // namespace bitpress::cuda
