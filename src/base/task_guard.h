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

namespace bitpress {

class TaskGuard {
 public:
  // `task` must outlive the guard.
  explicit TaskGuard(const std::function<void(size_t)>& task) : task_(task) {}
  TaskGuard(const TaskGuard&) = delete;
  TaskGuard& operator=(const TaskGuard&) = delete;

  // Calls the task with `i`, unless a task has thrown already. `guard` is a TaskGuard. Threads may
  // call this concurrently.
  static void Run(void* guard, size_t i) noexcept {
    auto& self = *static_cast<TaskGuard*>(guard);
    if (self.has_failed_) return;
    try {
      self.task_(i);
    } catch (...) {
      if (!self.has_failed_.exchange(true)) self.error_ = std::current_exception();
    }
  }

  // Throws the exception of the task that failed first, if one failed. REQUIRES: no task is
  // running.
  void Rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const std::function<void(size_t)>& task_;
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr error_;  // written by the one thread that sets has_failed_
};

}  // namespace bitpress
