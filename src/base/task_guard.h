// A guard that lets the tasks of a parallel loop throw although a C library runs the loop, which no
// exception may cross. For example, with ONNX Runtime's loop:
//
//   TaskGuard guard(task);
//   context.ParallelFor(TaskGuard::Run, num_tasks, 0, &guard);
//   guard.Rethrow();
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace bitpress {

class TaskGuard {
 public:
  // `task` must outlive the guard. Nothing may write between here and the loop what tasks read.
  explicit TaskGuard(const std::function<void(size_t)>& task) : task_(task) { Release(); }
  TaskGuard(const TaskGuard&) = delete;
  TaskGuard& operator=(const TaskGuard&) = delete;

  // Calls the task with `i`, unless a task has thrown already. `guard` is a TaskGuard. Threads may
  // call this concurrently.
  static void Run(void* guard, size_t i) noexcept {
    auto& self = *static_cast<TaskGuard*>(guard);
    self.Acquire();
    if (self.has_failed_) return;
    try {
      self.task_(i);
    } catch (...) {
      if (!self.has_failed_.exchange(true)) self.error_ = std::current_exception();
    }
    self.Release();
  }

  // Throws the exception of the task that failed first, if one failed. REQUIRES: no task is
  // running.
  void Rethrow() {
    Acquire();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  // The thread sanitizer does not see how a library that is not instrumented orders its threads:
  // what came before the loop is before each task, and each task before what comes after the loop.
#ifdef __SANITIZE_THREAD__
  void Release() { __tsan_release(this); }
  void Acquire() { __tsan_acquire(this); }
#else
  void Release() {}
  void Acquire() {}
#endif

  const std::function<void(size_t)>& task_;
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr error_;  // written by the one thread that sets has_failed_
};

}  // namespace bitpress
