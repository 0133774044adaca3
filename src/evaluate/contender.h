// One of the models of an evaluation: its session, what its runs took, and what it costs to load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/run_clock.h"
#include "base/tensor.h"
#include "evaluate/outputs.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

class Contender {
 public:
  // Loads the model. `path` names it in errors, `file` is what is run. Throws Error if it does not
  // load or has no input.
  Contender(std::filesystem::path path, const std::filesystem::path& file,
            const runtime::SessionOptions& options);

  const std::vector<runtime::ValueDescription>& inputs() const { return session_.inputs(); }
  const std::vector<runtime::ValueDescription>& outputs() const { return session_.outputs(); }
  const std::filesystem::path& path() const { return path_; }
  runtime::Session& session() { return session_; }

  double load_ms() const { return load_ms_; }
  // Returns whether times are those of a processor, see RunClock.
  bool IsOfProcessor() const { return clock_.IsOfProcessor(); }
  // Returns the time of the runs that were counted.
  double time_ms() const { return time_ms_; }
  // Returns how many bytes of memory this process took more by loading the model and by the runs
  // of WarmUp. Nothing if the system does not tell.
  std::optional<uint64_t> memory_bytes() const { return memory_bytes_; }

  // Returns the samples of each run if the model fixes them, else 0.
  size_t FixedBatchSize() const;

  // Sets the order of the inputs: input i takes tensor order[i] of a batch. Tensors without an
  // input are left out.
  void SetInputOrder(std::vector<size_t> order) { order_ = std::move(order); }

  // Runs one batch, and counts its time.
  void Run(const std::vector<Tensor>& batch) { Count(RunUncounted(batch)); }
  // Runs one batch, and returns its time in milliseconds.
  double RunUncounted(const std::vector<Tensor>& batch);
  // Adds the time of a run.
  void Count(double run_ms) { time_ms_ += run_ms; }
  // Takes the results of a batch that another model like this one ran, and its time.
  void TakeRun(std::vector<Tensor> results, double run_ms);
  // Does the same as Run without counting the time, but counts the memory.
  void WarmUp(const std::vector<Tensor>& batch);

  const std::vector<Tensor>& results() const { return results_; }  // outputs of the last run
  // Returns the outputs of the last run as numbers, and releases results(). Output `skipped` gets
  // no values.
  std::vector<Output> TakeOutputs(std::optional<size_t> skipped = std::nullopt);

 private:
  // Returns whether the inputs are all tensors of a batch in their order. Then the batch needs no
  // copy.
  bool TakesAllInOrder(size_t num_tensors) const;

  std::filesystem::path path_;
  RunClock clock_;
  double load_ms_ = 0;
  double time_ms_ = 0;
  std::optional<uint64_t> memory_bytes_;
  runtime::Session session_;  // behind the members that its loading sets
  std::vector<size_t> order_;
  std::vector<Tensor> results_;
};

}  // namespace bitpress::evaluate
