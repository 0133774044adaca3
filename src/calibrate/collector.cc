#include "calibrate/collector.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "kernels/half.h"

namespace bitpress::calibrate {
namespace {

// The least elements that are worth a thread's start.
constexpr size_t kLeastElementsPerTask = size_t{1} << 14;

}  // namespace

Collector::Collector(size_t num_values, size_t num_threads, bool adds_sums)
    : values_(num_values), num_threads_(std::max<size_t>(num_threads, 1)), adds_sums_(adds_sums) {}

std::unique_ptr<kernels::ObserveCounter> Collector::TakeCounter() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_counters_.empty()) {
      auto counter = std::move(idle_counters_.back());
      idle_counters_.pop_back();
      return counter;
    }
  }
  return std::make_unique<kernels::ObserveCounter>(adds_sums_);
}

void Collector::CountPart(const runtime::ObservedTensor& tensor, size_t begin, size_t end,
                          Value& value) {
  std::unique_ptr<kernels::ObserveCounter> counter = TakeCounter();
  const kernels::ObservedRange range =
      tensor.type == DataType::kFloat16
          ? counter->CountHalves({static_cast<const uint16_t*>(tensor.data) + begin, end - begin})
          : counter->Count({static_cast<const float*>(tensor.data) + begin, end - begin});
  const std::lock_guard lock(mutex_);
  value.statistics.AddCounted(*counter);
  value.of_sample.Add({range.min, range.max});
  idle_counters_.push_back(std::move(counter));
}

void Collector::CountSlices(const runtime::ObservedTensor& tensor, size_t count, Value& value,
                            const runtime::ParallelTasks& run_parallel) {
  if (tensor.type != DataType::kFloat16) {
    value.statistics.AddSlices({static_cast<const float*>(tensor.data), count}, tensor.dims,
                               run_parallel);
    return;
  }
  std::vector<float> widened(count);
  kernels::HalfToFloat({static_cast<const uint16_t*>(tensor.data), count}, widened.data());
  value.statistics.AddSlices(widened, tensor.dims, run_parallel);
}

void Collector::Observe(const runtime::ObservedTensor& tensor,
                        const runtime::ParallelTasks& run_parallel) {
  const size_t num_ids = values_.size() - offset_;
  if (tensor.id < 0 || static_cast<size_t>(tensor.id) >= num_ids) {
    Fail(ErrorCode::kRuntime, "an observer has the id {}, expected 0 to {}", tensor.id,
         num_ids - 1);
  }
  Value& value = values_[offset_ + static_cast<size_t>(tensor.id)];
  const auto count = static_cast<size_t>(NumElements(tensor.dims));
  if (count == 0) return;
  const size_t most_tasks = std::max<size_t>(1, count / kLeastElementsPerTask);
  const size_t least_tasks = count / kernels::ObserveCounter::kMostElements + 1;
  const size_t num_tasks = std::max(std::min(num_threads_, most_tasks), least_tasks);
  // Tasks run on ONNX Runtime's threads and must not throw.
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const runtime::ParallelTasks run_safely = [&](size_t count_of_tasks,
                                                const std::function<void(size_t)>& task) {
    run_parallel(count_of_tasks, [&](size_t i) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        failure = std::current_exception();
      }
    });
  };
  run_safely(num_tasks, [&](size_t task) {
    const size_t length = count / num_tasks;
    CountPart(tensor, task * length, task + 1 == num_tasks ? count : (task + 1) * length, value);
  });
  if (!failure && value.statistics.axis_statistics()) {
    CountSlices(tensor, count, value, run_safely);
  }
  if (failure) std::rethrow_exception(failure);
}

void Collector::Clear() {
  for (Value& value : values_) value = {};
}

void Collector::EndSample() {
  for (Value& value : values_) value.statistics.AddSample(std::exchange(value.of_sample, {}));
}

}  // namespace bitpress::calibrate
