// Nodes that show a tensor to this process at the place where ONNX Runtime computes it. Calibration
// and fine-tuning see a model's values by them. They are operators of our own, registered in the
// process, so that no library file is needed. Nothing is copied. The sink decides what to do with
// the tensor.
//
//   kObserve   (X) -> token: an int64 scalar, always 0, that is made an output of the graph so that
//              the node is not removed as useless. For the main graph.
//   kObservePass (X) -> X, the same data, unless the sink changes them. For the bodies of If, Loop
//              and Scan, whose outputs are fixed, and for sinks that change what readers get.
// X is FLOAT or FLOAT16 of any shape. The attribute `id`, an int, tells the nodes apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/tensor.h"
#include "graph/own_domain.h"

namespace bitpress::runtime {

using graph::kObserverDomain;
inline constexpr const char* kObserve = "Observe";
inline constexpr const char* kObservePass = "ObservePass";

// Returns whether observers take tensors of a type.
constexpr bool IsObservable(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16;
}

// A tensor that passes an observer. It is valid during the call only.
struct ObservedTensor {
  int64_t id = 0;
  DataType type = DataType::kFloat;  // or kFloat16
  std::span<const int64_t> dims;
  const void* data = nullptr;  // not null, even without elements
};

// A function that runs task(0) .. task(num_tasks - 1) on ONNX Runtime's own threads. Tasks must not
// throw.
using ParallelTasks =
    std::function<void(size_t num_tasks, const std::function<void(size_t)>& task)>;

// The receiver of observed tensors.
class ObserverSink {
 public:
  virtual ~ObserverSink() = default;
  // Takes a tensor that passes an observer. It is called for one tensor at a time in a session. Its
  // exceptions make Session::Run fail.
  virtual void Observe(const ObservedTensor& tensor, const ParallelTasks& run_parallel) = 0;
  // Changes the copy that the readers of a kObservePass get, which holds the tensor's elements. It
  // is called after Observe, and may be the tensor itself. Does nothing by default.
  virtual void Change(const ObservedTensor& tensor, void* copy, const ParallelTasks& run_parallel);
};

// The operators, bound to a sink. Both must outlive the sessions that they are registered with.
class ObserverOperators {
 public:
  explicit ObserverOperators(ObserverSink& sink);
  ~ObserverOperators();
  ObserverOperators(const ObserverOperators&) = delete;
  ObserverOperators& operator=(const ObserverOperators&) = delete;

  struct Impl;
  Impl& impl() const { return *impl_; }  // for this room

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::runtime
