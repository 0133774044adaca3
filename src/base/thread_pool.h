// A fixed set of worker threads for parallel loops over independent tasks. It is not fixed which
// thread runs which task, so tasks must not depend on it. Results are then the same for any number
// of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace bitpress {

class ThreadPool {
 public:
  // Starts the workers. `num_threads` counts the calling thread, and 0 means UsableProcessors. If
  // the system refuses more threads, the pool has fewer.
  explicit ThreadPool(size_t num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const;

  // Runs task(0) .. task(num_tasks - 1), in any order, and returns when all are done. If tasks
  // throw, rethrows the exception of the failed task with the lowest number; tasks that have not
  // begun by then may be skipped. REQUIRES: no other loop of this pool is running, so tasks must
  // not call this.
  void ParallelFor(size_t num_tasks, const std::function<void(size_t)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress
