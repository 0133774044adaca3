#include "evaluate/contender.h"

#include <chrono>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "base/paths.h"
#include "ops/batch.h"

namespace bitpress::evaluate {
namespace {

// Calls `work`, and adds what it takes to `ms` and to `bytes`.
template <typename Work>
auto Measure(double& ms, std::optional<uint64_t>& bytes, Work&& work) {
  const std::optional<uint64_t> before = ResidentMemory();
  const auto begin = std::chrono::steady_clock::now();
  auto result = work();
  const auto end = std::chrono::steady_clock::now();
  ms += std::chrono::duration<double, std::milli>(end - begin).count();
  const std::optional<uint64_t> after = ResidentMemory();
  if (before && after) bytes = bytes.value_or(0) + (*after > *before ? *after - *before : 0);
  return result;
}

}  // namespace

Contender::Contender(std::filesystem::path path, const std::filesystem::path& file,
                     const runtime::SessionOptions& options)
    : path_(std::move(path)),
      clock_(options.num_threads == 1),
      session_(Measure(load_ms_, memory_bytes_, [&] { return runtime::Session(file, options); })) {
  if (session_.inputs().empty()) {
    Fail(ErrorCode::kInvalidModel, "{}: the model has no input to evaluate", PathText(path_));
  }
}

size_t Contender::FixedBatchSize() const {
  ops::FixedBatch batch;
  for (const runtime::ValueDescription& input : inputs()) batch.AddInput(input.dims);
  return batch.num_samples();
}

void Contender::TakeRun(std::vector<Tensor> results, double run_ms) {
  results_ = std::move(results);
  Count(run_ms);
}

void Contender::WarmUp(const std::vector<Tensor>& batch) {
  double uncounted_ms = 0;
  Measure(uncounted_ms, memory_bytes_, [&] { return RunUncounted(batch); });
}

double Contender::RunUncounted(const std::vector<Tensor>& batch) {
  double run_ms = 0;
  WithContext(PathText(path_), [&] {
    const bool takes_all = TakesAllInOrder(batch.size());
    std::vector<Tensor> taken;
    if (!takes_all) {
      for (const size_t i : order_) taken.push_back(batch.at(i));
    }
    results_.clear();  // logits of a batch are large
    const double begin = clock_.Seconds();
    results_ = session_.Run(takes_all ? batch : taken);
    constexpr double kMs = 1000;
    run_ms = kMs * (clock_.Seconds() - begin);
  });
  return run_ms;
}

std::vector<Output> Contender::TakeOutputs(std::optional<size_t> skipped) {
  std::vector<Output> outputs;
  for (size_t i = 0; i < results_.size(); ++i) {
    outputs.push_back(skipped == i ? Output{results_[i].dims, {}} : ToOutput(results_[i]));
  }
  results_.clear();
  return outputs;
}

bool Contender::TakesAllInOrder(size_t num_tensors) const {
  if (order_.size() != num_tensors) return false;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (order_[i] != i) return false;
  }
  return true;
}

}  // namespace bitpress::evaluate
