// Runs kernels that tools/ptx_to_cc.py translated, on the processor: blocks one after the other,
// the lanes of a warp in turn until they meet. It throws where a device would do something that
// depends on time or on chance: an access outside of the memory that a launch was given, or not
// aligned; two threads of a launch of which one writes what the other reads or writes; shared
// memory that the thread has not written; lanes that do not meet at the same instruction; a
// division by zero. For tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::cuda {

// Memory that a launch may use.
struct Region {
  const void* begin = nullptr;
  size_t bytes = 0;
  size_t granule = 4;  // the size of an element: threads own elements
  bool is_writable = true;
};

class Machine;

// A thread of a kernel, as the translated code sees it.
struct Thread {
  uint32_t index = 0, block_size = 0, block = 0, num_blocks = 0;
  int resume = 0;         // the meeting at which it waits; 0: the beginning
  uint32_t meetings = 0;  // so far
  bool has_ended = false;
  uint32_t value = 0, lane_bits = 0, mask = 0, received = 0;
  uint64_t executed = 0;
  void* registers = nullptr;
  Machine* machine = nullptr;

  uint64_t ParameterAddress() const;
  uint64_t SharedAddress(size_t variable) const;
  void Align(uint64_t address, size_t bytes) const;
  template <class T>
  T LoadParam(uint64_t address) const;
  template <class T>
  T LoadGlobal(uint64_t address) const;
  template <class T>
  void StoreGlobal(uint64_t address, T value) const;
  template <class T>
  T LoadShared(uint64_t address) const;
  template <class T>
  void StoreShared(uint64_t address, T value) const;
  template <class T>
  T Divide(T a, T b) const;
  template <class T>
  T Remainder(T a, T b) const;
  void Meet(int at, uint32_t sent, uint32_t bits, uint32_t lanes);
  void End() { has_ended = true; }
};

struct TranslatedKernel {
  std::string_view name;
  void (*run)(Thread&);
  size_t parameter_bytes;
  size_t register_bytes;  // 0: its lanes do not meet
  std::vector<size_t> shared_bytes;
};

// The kernels of src/cuda/kernels.ptx, and those with mistakes (src/cuda/test_mistakes.ptx).
const std::vector<TranslatedKernel>& TranslatedKernels();
const std::vector<TranslatedKernel>& MistakenKernels();

class Machine {
 public:
  // Runs all threads of a launch and returns the number of executed instructions. Throws
  // std::runtime_error for what the top of the file says.
  uint64_t Launch(const TranslatedKernel& kernel, uint32_t num_blocks, uint32_t block_size,
                  const void* parameters, std::span<const Region> regions);

  // Kernels' addresses differ by so much from where their memory is.
  void set_distance(int64_t distance) { distance_ = distance; }
  void* Reach(uint64_t address) const {
    return reinterpret_cast<void*>(address + static_cast<uint64_t>(distance_));
  }

  void CheckLoad(const Thread& thread, uint64_t address, size_t bytes);
  void CheckStore(const Thread& thread, uint64_t address, size_t bytes);
  void CheckShared(const Thread& thread, uint64_t address, size_t bytes, bool writes);
  [[noreturn]] void Fail(const Thread& thread, const std::string& what) const;

 private:
  friend struct Thread;
  struct Shadow {
    uint32_t writer = 0;  // the thread's number plus one
    uint32_t reader = 0;  // the last one, and what it had met before
    uint32_t reader_meetings = 0;
    uint32_t other_warp = 0;  // the warp of all earlier ones plus one, or that there are several
    uint32_t other_meetings = 0;
  };
  struct Tracked {
    Region region;
    std::vector<Shadow> shadows;
  };
  Tracked& Find(const Thread& thread, uint64_t address, size_t bytes, const char* what);
  void RunWarp(std::span<Thread> lanes);
  void Exchange(std::span<Thread> lanes);

  const TranslatedKernel* kernel_ = nullptr;
  int64_t distance_ = 0;
  std::vector<uint8_t> parameters_;
  std::vector<Tracked> tracked_;
  std::vector<uint64_t> shared_;  // all variables of a block
  std::vector<uint32_t> shared_writers_;
};

template <class T>
T Thread::LoadParam(uint64_t address) const {
  const uint64_t begin = ParameterAddress();
  if (address < begin || address + sizeof(T) > begin + machine->kernel_->parameter_bytes) {
    machine->Fail(*this, "a read outside of the parameters");
  }
  T loaded;
  std::memcpy(&loaded, reinterpret_cast<const void*>(address), sizeof(T));
  return loaded;
}
template <class T>
T Thread::LoadGlobal(uint64_t address) const {
  machine->CheckLoad(*this, address, sizeof(T));
  T loaded;
  std::memcpy(&loaded, machine->Reach(address), sizeof(T));
  return loaded;
}
template <class T>
void Thread::StoreGlobal(uint64_t address, T stored) const {
  machine->CheckStore(*this, address, sizeof(T));
  std::memcpy(machine->Reach(address), &stored, sizeof(T));
}
template <class T>
T Thread::LoadShared(uint64_t address) const {
  machine->CheckShared(*this, address, sizeof(T), false);
  T loaded;
  std::memcpy(&loaded, reinterpret_cast<const void*>(address), sizeof(T));
  return loaded;
}
template <class T>
void Thread::StoreShared(uint64_t address, T stored) const {
  machine->CheckShared(*this, address, sizeof(T), true);
  std::memcpy(reinterpret_cast<void*>(address), &stored, sizeof(T));
}
template <class T>
T Thread::Divide(T a, T b) const {
  if (b == 0) machine->Fail(*this, "a division by zero");
  return static_cast<T>(a / b);
}
template <class T>
T Thread::Remainder(T a, T b) const {
  if (b == 0) machine->Fail(*this, "a division by zero");
  return static_cast<T>(a % b);
}

}  // namespace bitpress::cuda
