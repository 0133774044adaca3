#include "base/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/processors.h"

namespace bitpress {

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  const std::function<void(size_t)>* task = nullptr;
  size_t num_tasks = 0;
  std::atomic<size_t> next{0};
  size_t num_running = 0;  // workers that have not yet left the current loop
  size_t generation = 0;   // number of loops so far, so that a worker joins each one once
  bool stop = false;
  std::exception_ptr error;
  size_t error_task = 0;

  void Work() {
    while (true) {
      const size_t i = next.fetch_add(1);
      if (i >= num_tasks) return;
      try {
        (*task)(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error || i < error_task) {
          error = std::current_exception();
          error_task = i;
        }
        next.store(num_tasks);
      }
    }
  }

  void RunWorker() {
    size_t seen = 0;
    while (true) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) return;
        seen = generation;
      }
      Work();
      const std::lock_guard lock(mutex);
      if (--num_running == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(size_t num_threads) : state_(std::make_unique<State>()) {
  if (num_threads == 0) num_threads = UsableProcessors();
  for (size_t i = 1; i < num_threads; ++i) {
    try {
      state_->workers.emplace_back([state = state_.get()] { state->RunWorker(); });
    } catch (const std::system_error&) {
      break;  // the system gives no more threads, and fewer do the same work
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

size_t ThreadPool::num_threads() const { return state_->workers.size() + 1; }

void ThreadPool::ParallelFor(size_t num_tasks, const std::function<void(size_t)>& task) {
  if (num_tasks == 0) return;
  {
    const std::lock_guard lock(state_->mutex);
    BITPRESS_DCHECK(state_->num_running == 0);
    state_->task = &task;
    state_->num_tasks = num_tasks;
    state_->next = 0;
    state_->num_running = state_->workers.size();
    state_->error = nullptr;
    ++state_->generation;
  }
  state_->wake.notify_all();
  state_->Work();
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return state_->num_running == 0; });
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
}

}  // namespace bitpress
