// Counts the tensors that observers show, on as many threads as ONNX Runtime has. The counts do not
// depend on how a tensor is cut among them. Used by one session at a time.
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
  // For ids 0 .. num_values - 1. `num_threads`: how many work at once.
  Collector(size_t num_values, size_t num_threads);

  void Observe(const runtime::ObservedTensor& tensor,
               const runtime::ParallelTasks& run_parallel) override;
  // A sample has run: its extremes are now known. A value that came several times, in a loop,
  // counts once.
  void EndSample();

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
  std::mutex mutex_;  // of what follows, and of values while they are added to
  std::vector<std::unique_ptr<kernels::ObserveCounter>> idle_counters_;
};

}  // namespace bitpress::calibrate
