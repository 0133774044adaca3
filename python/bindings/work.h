// Runs long work for Python: without the interpreter's lock, and with progress. An exception in
// Python code that is called meanwhile stops the work, and so does Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "bitpress/progress.h"

namespace bitpress::python {

namespace nb = nanobind;

class Work {
 public:
  // `progress` is a function of (stage, done, total), or None.
  explicit Work(nb::object progress) : progress_(std::move(progress)) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Runs `function` without the lock. If Python code raised an exception meanwhile, raises it, even
  // if the library turned it into an Error. Otherwise throws what `function` throws.
  template <typename Function>
  auto Run(Function&& function) {
    const nb::gil_scoped_release release;
    try {
      return std::forward<Function>(function)();
    } catch (...) {
      if (const std::exception_ptr failure = Failure()) std::rethrow_exception(failure);
      throw;
    }
  }

  // Calls `function` with the lock, from any thread. An exception that it raises stops the work.
  template <typename Function>
  auto WithPython(Function&& function) {
    const nb::gil_scoped_acquire acquire;
    try {
      return std::forward<Function>(function)();
    } catch (nb::python_error&) {
      Keep(std::current_exception());
      throw;
    } catch (nb::cast_error&) {
      Keep(std::current_exception());
      throw;
    }
  }

  // Returns a sink that calls `progress` and stops the work after Ctrl-C. This object must outlive
  // it.
  ProgressSink Sink();

 private:
  void Keep(std::exception_ptr failure);
  std::exception_ptr Failure();

  nb::object progress_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace bitpress::python
