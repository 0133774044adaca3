// Helpers for kernels of ours inside ONNX Runtime, both in the operator library (custom_ops/) and
// in this process (runtime/observers.h).
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstddef>
#include <functional>

#include "base/task_guard.h"

namespace bitpress::ort {

// Runs tasks 0 .. num_tasks - 1 on ONNX Runtime's own threads. If tasks throw, the first exception
// is thrown again, and tasks that have not started may be left out.
inline void ParallelFor(Ort::KernelContext& context, size_t num_tasks,
                        const std::function<void(size_t)>& task) {
  if (num_tasks == 1) return task(0);
  TaskGuard guard(task);
  context.ParallelFor(TaskGuard::Run, num_tasks, 0, &guard);
  guard.Rethrow();
}

// Lets output 0 of an operator use the memory of input 0.
inline void AllowInPlace(OrtCustomOp& op) {
  // ONNX Runtime reads the indices and hands them back. They are static, because this callback has
  // no status to report that an allocation failed.
  op.GetMayInplace = [](int** input_index, int** output_index) -> size_t {
    static int first = 0;
    *input_index = *output_index = &first;
    return 1;
  };
  op.ReleaseMayInplace = [](int*, int*) {};
}

}  // namespace bitpress::ort
