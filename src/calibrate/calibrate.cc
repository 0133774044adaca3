#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "calibrate/collector.h"
#include "calibrate/instrument.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {
namespace {

// Rows of the first dimension that each sample has, for models that fix it; 0 if it is free.
size_t FixedRows(const runtime::Session& session) {
  int64_t rows = 0;
  for (const runtime::ValueDescription& input : session.inputs()) {
    if (input.dims.empty() || input.dims[0] <= 0) return 0;
    if (rows != 0 && input.dims[0] != rows) return 0;
    rows = input.dims[0];
  }
  return static_cast<size_t>(rows);
}

// `count` rows of the first dimension.
Tensor Rows(const Tensor& tensor, size_t first, size_t count) {
  Tensor part{tensor.type, tensor.dims, {}};
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.dims[0]);
  part.dims[0] = static_cast<int64_t>(count);
  const auto begin = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(first * row_bytes);
  part.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(count * row_bytes));
  return part;
}

class Calibration {
 public:
  Calibration(const graph::Model& model, std::span<const std::string> values,
              const CalibrateOptions& options)
      : options_(options),
        num_threads_(options.num_threads > 0
                         ? options.num_threads
                         : std::max<size_t>(1, std::thread::hardware_concurrency())),
        collector_(values.size(), num_threads_),
        operators_(collector_),
        session_(Load(model, values)) {}

  void Run(data::Source& source) {
    // A sample that runs alone gives the same whatever was read with it.
    const size_t fixed = FixedRows(session_);
    const size_t per_run = std::max<size_t>(fixed, 1);
    const size_t at_once =
        (std::max(options_.batch_size, per_run) + per_run - 1) / per_run * per_run;
    source.Rewind();
    while (const std::optional<data::Batch> batch = source.Next(at_once)) {
      if (HasRows(*batch)) {
        RunRows(*batch, per_run);
      } else if (batch->num_samples > 0) {
        RunSample(batch->inputs, batch->num_samples);
      }
      if (options_.progress) options_.progress("calibrate", num_samples_, source.num_samples());
    }
  }

  uint64_t num_samples() const { return num_samples_; }
  uint64_t num_left_out() const { return num_left_out_; }
  double run_ms() const { return run_time_.count(); }
  TensorStatistics& statistics(size_t id) { return collector_.statistics(id); }
  size_t fixed_rows() const { return FixedRows(session_); }

 private:
  runtime::Session Load(const graph::Model& model, std::span<const std::string> values) {
    for (size_t id = 0; id < values.size(); ++id) {
      const auto axis = options_.axes.find(values[id]);
      if (axis != options_.axes.end()) collector_.statistics(id).set_axis(axis->second);
    }
    // Through a file, which ONNX Runtime maps, and not in memory, where the weights would be twice.
    const ScratchFolder folder;
    const std::filesystem::path path = folder.path() / "observed.onnx";
    {
      graph::Model observed = model.Clone();
      InsertObservers(observed, values);
      observed.Save(path, /*external_data=*/true);
    }
    runtime::SessionOptions session;
    session.num_threads = static_cast<int>(num_threads_);
    session.operator_library = options_.operator_library;
    session.observers = &operators_;
    return runtime::Session(path, session);
  }

  // Whether the inputs are rows of samples, not one sample without a batch dimension.
  static bool HasRows(const data::Batch& batch) {
    return batch.num_samples > 0 && std::ranges::all_of(batch.inputs, [&](const Tensor& input) {
             return !input.dims.empty() && input.dims[0] == static_cast<int64_t>(batch.num_samples);
           });
  }

  void RunRows(const data::Batch& batch, size_t per_run) {
    num_left_out_ += batch.num_samples % per_run;
    for (size_t row = 0; row + per_run <= batch.num_samples; row += per_run) {
      if (per_run == batch.num_samples) {
        RunSample(batch.inputs, per_run);
        continue;
      }
      std::vector<Tensor> inputs;
      for (const Tensor& input : batch.inputs) inputs.push_back(Rows(input, row, per_run));
      RunSample(inputs, per_run);
    }
  }

  void RunSample(const std::vector<Tensor>& inputs, size_t num_samples) {
    const auto start = std::chrono::steady_clock::now();
    session_.Run(inputs);
    collector_.EndSample();
    run_time_ += std::chrono::steady_clock::now() - start;
    num_samples_ += num_samples;
  }

  const CalibrateOptions& options_;
  size_t num_threads_;
  Collector collector_;
  runtime::ObserverOperators operators_;
  runtime::Session session_;
  uint64_t num_samples_ = 0;
  uint64_t num_left_out_ = 0;
  std::chrono::duration<double, std::milli> run_time_{0};
};

}  // namespace

CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options) {
  if (options.batch_size == 0) {
    Fail(ErrorCode::kInvalidArgument, "the batch size is 0, expected 1 or more");
  }
  constexpr size_t kMostThreads = 1024;
  if (options.num_threads > kMostThreads) {
    Fail(ErrorCode::kInvalidArgument, "{} threads are too many", options.num_threads);
  }
  Calibration calibration(model, values, options);
  calibration.Run(source);
  CalibrationTable table{std::move(name), model.Fingerprint(), calibration.num_samples(), {}};
  if (table.num_samples == 0) {
    const size_t fixed = calibration.fixed_rows();
    Fail(ErrorCode::kInvalidArgument, "there are no samples to calibrate with{}",
         fixed > 1 ? fmt::format(": the model takes {} at a time, and a rest is left out", fixed)
                   : "");
  }
  for (size_t id = 0; id < values.size(); ++id) {
    table.tensors.emplace(values[id], std::move(calibration.statistics(id)));
  }
  return {std::move(table), calibration.num_left_out(), calibration.run_ms()};
}

}  // namespace bitpress::calibrate
