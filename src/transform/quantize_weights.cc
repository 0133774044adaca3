#include "transform/quantize_weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "kernels/fake_quantize.h"
#include "kernels/half.h"
#include "transform/quantizer_spelling.h"

namespace bitpress::transform {
namespace {

using graph::InitializerView;
using graph::Model;
using plan::QuantPlan;
using plan::TensorPlan;

// Weights whose results wait in memory at the same time.
constexpr size_t kBatchBytes = size_t{256} << 20;

// Exponent bits all ones: NaN or infinity.
bool IsFinite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7F800000U) != 0x7F800000U; }
bool IsFinite(uint16_t half) { return (half & 0x7C00U) != 0x7C00U; }

std::vector<float> ToFloats(std::span<const uint16_t> halves) {
  std::vector<float> floats(halves.size());
  kernels::HalfToFloat(halves, floats.data());
  return floats;
}

template <typename T>
int64_t FirstNonFinite(std::span<const T> values) {
  // Whole chunks at a time, which the compiler vectorizes.
  constexpr size_t kChunk = 1024;
  for (size_t begin = 0; begin < values.size(); begin += kChunk) {
    const size_t end = std::min(values.size(), begin + kChunk);
    bool is_finite = true;
    for (size_t i = begin; i < end; ++i) is_finite &= IsFinite(values[i]);
    if (is_finite) continue;
    for (size_t i = begin; i < end; ++i) {
      if (!IsFinite(values[i])) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

// One weight in one treatment, on its way.
struct Job {
  const TensorPlan* row = nullptr;
  bool has_copy = false;    // other readers keep the original
  bool is_changed = false;  // any bit of it
  std::string reader;       // a node that reads it, for messages
  InitializerView source;
  Tensor result;
  std::unique_ptr<kernels::FakeQuantizer> quantizer;
  WeightStatistics statistics;

  bool is_half() const { return source.type == DataType::kFloat16; }
};

// "[1, 0, 2, 2]"
std::string Position(int64_t index, std::span<const int64_t> dims) {
  std::vector<std::string> words(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    words[i] = std::to_string(index % dims[i]);
    index /= dims[i];
  }
  return fmt::format("[{}]", Join(words, ", "));
}

void CheckFinite(const Job& job) {
  const InitializerView& source = job.source;
  const int64_t index = job.is_half() ? FirstNonFinite(source.values<uint16_t>())
                                      : FirstNonFinite(source.values<float>());
  if (index < 0) return;
  const auto at = static_cast<size_t>(index);
  const float value = job.is_half() ? ToFloats(source.values<uint16_t>().subspan(at, 1)).front()
                                    : source.values<float>()[at];
  Fail(ErrorCode::kInvalidModel,
       "{}: {} '{}' holds {} at index {}, position {}; a weight must be finite to be quantized "
       "(exclude the node, or repair the model)",
       job.reader, plan::RoleName(job.row->role), job.row->value,
       std::isnan(value) ? "NaN" : "infinity", index, Position(index, source.dims));
}

// The tensor seen as [outer, axis, inner].
std::unique_ptr<kernels::FakeQuantizer> MakeQuantizer(const TensorPlan& row,
                                                      plan::OperatorSet operators,
                                                      std::span<const int64_t> dims) {
  const formats::FormatSpec spec = SpecOf(operators, row.Spec());
  const auto rank = static_cast<int64_t>(dims.size());
  if (!row.axis) {
    return std::make_unique<kernels::FakeQuantizer>(spec, 1, NumElements(dims), 1);
  }
  const auto axis = static_cast<size_t>(*row.axis < 0 ? *row.axis + rank : *row.axis);
  const int64_t outer = NumElements(dims.first(axis));
  const int64_t length = dims[axis];
  const int64_t inner = NumElements(dims.subspan(axis + 1));
  return row.flatten ? std::make_unique<kernels::FakeQuantizer>(spec, outer, length * inner, 1)
                     : std::make_unique<kernels::FakeQuantizer>(spec, outer, length, inner);
}

void Measure(std::span<const float> x, std::span<const float> y, WeightStatistics& statistics) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    const double error = y[i] - value;
    signal += value * value;
    noise += error * error;
  }
  statistics.num_elements = static_cast<int64_t>(x.size());
  statistics.mean_squared_error = x.empty() ? 0 : noise / static_cast<double>(x.size());
  statistics.sqnr_db =
      noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

void RunTask(Job& job, size_t task) {
  if (job.is_half()) {
    job.quantizer->RunTaskHalf(task, job.source.values<uint16_t>().data(),
                               job.result.values<uint16_t>().data());
  } else {
    job.quantizer->RunTask(task, job.source.values<float>().data(),
                           job.result.values<float>().data());
  }
}

void Finish(Job& job) {
  if (job.is_half()) {
    Measure(ToFloats(job.source.values<uint16_t>()),
            ToFloats(std::as_const(job.result).values<uint16_t>()), job.statistics);
  } else {
    Measure(job.source.values<float>(), std::as_const(job.result).values<float>(), job.statistics);
  }
  job.is_changed = !std::ranges::equal(job.source.bytes, job.result.bytes);
}

class WeightQuantizer {
 public:
  WeightQuantizer(Model& model, const QuantPlan& plan, ThreadPool& pool,
                  const ProgressSink& progress)
      : model_(model), plan_(plan), index_(model), pool_(pool), progress_(progress) {}

  QuantizedWeights Run() {
    // Who gets a copy is settled before anything changes.
    std::vector<std::pair<const TensorPlan*, bool>> rows;
    for (const TensorPlan& row : plan_.tensors) {
      if (row.is_quantized() && row.role != plan::Role::kActivation && !IsDone(row)) {
        rows.emplace_back(&row, IsReadElsewhere(row));
      }
    }
    num_rows_ = rows.size();
    for (size_t begin = 0; begin < rows.size();) {
      std::vector<Job> jobs;
      size_t num_bytes = 0;
      for (; begin < rows.size() && num_bytes < kBatchBytes; ++begin) {
        jobs.push_back(MakeJob(*rows[begin].first));
        jobs.back().has_copy = rows[begin].second;
        num_bytes += jobs.back().source.bytes.size();
      }
      Compute(jobs);
      for (Job& job : jobs) Replace(job);
      num_finished_ += jobs.size();
    }
    return std::move(result_);
  }

 private:
  // Whether an earlier run gave every reader its copy.
  bool IsDone(const TensorPlan& row) const {
    return !row.uses.empty() && std::ranges::all_of(row.uses, [&](const plan::TensorUse& use) {
      return index_.Find(use).input(static_cast<size_t>(use.input)) != row.value;
    });
  }

  Job MakeJob(const TensorPlan& row) const {
    Job job;
    job.row = &row;
    job.reader = row.uses.empty() ? "the model" : index_.Find(row.uses.front()).Describe();
    job.source = model_.Initializer(row.value);
    job.result.type = job.source.type;
    job.result.dims.assign(job.source.dims.begin(), job.source.dims.end());
    job.result.bytes.resize(job.source.bytes.size());
    job.quantizer = MakeQuantizer(row, plan_.operators, job.source.dims);
    job.statistics.value = row.value;
    job.statistics.format = row.format;
    return job;
  }

  // Fills in results and statistics, all jobs' tasks side by side.
  void Compute(std::vector<Job>& jobs) {
    pool_.ParallelFor(jobs.size(), [&](size_t i) { CheckFinite(jobs[i]); });
    std::vector<size_t> first_task{0};
    for (const Job& job : jobs) {
      first_task.push_back(first_task.back() + job.quantizer->num_tasks());
    }
    std::vector<std::atomic<size_t>> left(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) left[i] = jobs[i].quantizer->num_tasks();
    std::mutex mutex;
    size_t num_done = num_finished_;
    pool_.ParallelFor(first_task.back(), [&](size_t task) {
      const auto next = std::upper_bound(first_task.begin(), first_task.end(), task);
      const auto i = static_cast<size_t>(next - first_task.begin()) - 1;
      RunTask(jobs[i], task - first_task[i]);
      if (left[i].fetch_sub(1) != 1) return;
      Finish(jobs[i]);
      const std::lock_guard lock(mutex);
      ++num_done;
      if (progress_) progress_("quantize weights", num_done, num_rows_);
    });
  }

  bool IsReadElsewhere(const TensorPlan& row) const {
    if (model_.IsOutput(row.value) || model_.IsUsedInSubgraph(row.value)) return true;
    const std::vector<graph::Use> uses = model_.Uses(row.value);
    return std::ranges::any_of(uses, [&](const graph::Use& use) {
      const plan::TensorUse wanted{index_.KeyOf(use.node), use.node.op_type(),
                                   static_cast<int64_t>(use.input_index)};
      return std::ranges::find(row.uses, wanted) == row.uses.end();
    });
  }

  void Replace(Job& job) {
    const TensorPlan& row = *job.row;
    std::string target = row.value;
    if (job.has_copy) target = model_.FreshName(row.value + "_quantized");
    if (job.has_copy || job.is_changed) {
      model_.SetInitializer(target, std::move(job.result));
      result_.is_modified = true;
    }
    if (job.has_copy) {
      for (const plan::TensorUse& use : row.uses) {
        index_.Find(use).set_input(static_cast<size_t>(use.input), target);
      }
      const bool is_unused = model_.Uses(row.value).empty() && !model_.IsOutput(row.value) &&
                             !model_.IsUsedInSubgraph(row.value);
      if (is_unused) model_.RemoveInitializer(row.value);
    }
    job.statistics.quantized = target;
    result_.weights.push_back(std::move(job.statistics));
  }

  Model& model_;
  const QuantPlan& plan_;
  plan::NodeIndex index_;
  ThreadPool& pool_;
  const ProgressSink& progress_;
  size_t num_rows_ = 0;
  size_t num_finished_ = 0;
  QuantizedWeights result_;
};

}  // namespace

QuantizedWeights QuantizeWeights(Model& model, const QuantPlan& plan, ThreadPool& pool,
                                 const ProgressSink& progress) {
  plan::CheckFits(plan, model);
  return WeightQuantizer(model, plan, pool, progress).Run();
}

}  // namespace bitpress::transform
