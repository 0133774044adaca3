// A fixed set of worker threads for parallel loops over independent tasks. Which thread runs which
// task is not fixed, so tasks must not depend on it: results are then the same for any number of
// threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace bitpress {

class ThreadPool {
 public:
  // `num_threads` counts the calling thread; 0 means one per core. Where the system refuses more
  // threads, the pool has fewer.
  explicit ThreadPool(size_t num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const;

  // Runs task(0) .. task(num_tasks - 1), in any order, and returns when all are done. If tasks
  // throw, the exception of the lowest-numbered failed task is rethrown here (tasks not begun by
  // then may be skipped). Not reentrant.
  void ParallelFor(size_t num_tasks, const std::function<void(size_t)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitpress
