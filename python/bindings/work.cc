#include "work.h"

#include <nanobind/stl/string_view.h>

namespace bitpress::python {

ProgressSink Work::Sink() {
  return [this](std::string_view stage, size_t done, size_t total) {
    WithPython([&] {
      // Python handles signals only while the interpreter runs, which it does not during the work.
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress_.is_none()) progress_(stage, done, total);
    });
  };
}

void Work::Keep(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

std::exception_ptr Work::Failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace bitpress::python
