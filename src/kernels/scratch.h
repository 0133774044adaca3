// Memory for the time of a task, kept for the next one of the process: memory that the system hands
// out anew for every task would cost about as much as the task. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace bitpress::kernels {

class Scratch {
 public:
  // Holds at least `size` bytes, aligned to lines of the cache. Their values are anything.
  explicit Scratch(size_t size);
  ~Scratch();
  Scratch(Scratch&&) noexcept = default;
  Scratch& operator=(Scratch&&) = delete;

  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(block_.bytes.get());
  }

  struct Delete {
    static constexpr size_t kAlignment = 64;
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t{kAlignment});
    }
  };
  struct Block {
    std::unique_ptr<std::byte[], Delete> bytes;
    size_t size = 0;
  };

 private:
  Block block_;
};

}  // namespace bitpress::kernels
