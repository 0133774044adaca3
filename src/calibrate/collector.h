// A sink of observers that counts their tensors, on as many threads as ONNX Runtime has. The counts
// do not depend on how a tensor is cut among threads. One session at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "calibrate/statistics.h"
#include "kernels/observe.h"
#include "runtime/observers.h"

namespace bitpress::calibrate {

class Collector : public runtime::ObserverSink {
 public:
  // Counts tensors of the ids 0 .. num_values - 1, the offset included, on `num_threads` threads at
  // once. `adds_sums`: see CalibrateOptions.
  Collector(size_t num_values, size_t num_threads, bool adds_sums);

  void Observe(const runtime::ObservedTensor& tensor,
               const runtime::ParallelTasks& run_parallel) override;
  // Forgets everything, axes included.
  void Clear();
  // Takes the extremes of the sample that has run. A value that came several times, in a loop,
  // counts once.
  void EndSample();
  // Counts what comes from now on as values of the ids + `offset`.
  void set_offset(size_t offset) { offset_ = offset; }

  TensorStatistics& statistics(size_t id) { return values_[id].statistics; }

 private:
  struct Value {
    TensorStatistics statistics;
    Extremes of_sample;
  };

  std::unique_ptr<kernels::ObserveCounter> TakeCounter();
  void CountPart(const runtime::ObservedTensor& tensor, size_t begin, size_t end, Value& value);
  void CountSlices(const runtime::ObservedTensor& tensor, size_t count, Value& value,
                   const runtime::ParallelTasks& run_parallel);

  std::vector<Value> values_;
  size_t num_threads_;
  bool adds_sums_;
  size_t offset_ = 0;
  std::mutex mutex_;  // guards idle_counters_, and values while they are added to
  std::vector<std::unique_ptr<kernels::ObserveCounter>> idle_counters_;
};

}  // namespace bitpress::calibrate
