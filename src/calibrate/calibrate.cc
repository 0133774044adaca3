#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "calibrate/collector.h"
#include "calibrate/instrument.h"
#include "calibrate/sample_runs.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {
namespace {

class Calibration {
 public:
  Calibration(const graph::Model& model, std::span<const std::string> values,
              const CalibrateOptions& options)
      : options_(options),
        num_threads_(options.num_threads > 0
                         ? options.num_threads
                         : std::max<size_t>(1, std::thread::hardware_concurrency())),
        num_values_(values.size()),
        collector_(options.hold_back_every > 0 ? 2 * num_values_ : num_values_, num_threads_),
        operators_(collector_),
        session_(Load(model, values)) {}

  void Run(data::Source& source) {
    counts_ = RunSamples(
        source, session_.inputs(), options_.batch_size,
        [&](const std::vector<Tensor>& inputs, size_t count) { RunSample(inputs, count); },
        "calibrate", options_.progress);
  }

  const SampleCounts& counts() const { return counts_; }
  double run_ms() const { return run_time_.count(); }
  // Returns the statistics of a value over the samples that were not held back.
  TensorStatistics& statistics(size_t id) { return collector_.statistics(id); }
  // Returns those over the others. REQUIRES: some may be held back.
  TensorStatistics& held_back(size_t id) { return collector_.statistics(num_values_ + id); }
  uint64_t num_held_back() const { return num_held_back_; }
  size_t fixed_rows() const { return FixedRows(session_.inputs()); }

 private:
  runtime::Session Load(const graph::Model& model, std::span<const std::string> values) {
    for (size_t id = 0; id < values.size(); ++id) {
      const auto axis = options_.axes.find(values[id]);
      if (axis == options_.axes.end()) continue;
      collector_.statistics(id).set_axis(axis->second);
      if (options_.hold_back_every > 0) held_back(id).set_axis(axis->second);
    }
    // The model goes through a file, which ONNX Runtime maps. In memory the weights would be twice.
    const ScratchFolder folder;
    const std::filesystem::path path = folder.path() / "observed.onnx";
    {
      graph::Model observed = model.Clone();
      InsertObservers(observed, values);
      observed.Save(path, graph::ExternalData::kAlways);
    }
    runtime::SessionOptions session;
    session.num_threads = static_cast<int>(num_threads_);
    session.operator_library = options_.operator_library;
    session.observers = &operators_;
    return runtime::Session(path, session);
  }

  void RunSample(const std::vector<Tensor>& inputs, size_t count) {
    const bool is_held_back =
        options_.hold_back_every > 0 && ++num_runs_ % options_.hold_back_every == 0;
    collector_.set_offset(is_held_back ? num_values_ : 0);
    if (is_held_back) num_held_back_ += count;
    const auto start = std::chrono::steady_clock::now();
    session_.Run(inputs);
    collector_.EndSample();
    run_time_ += std::chrono::steady_clock::now() - start;
  }

  const CalibrateOptions& options_;
  size_t num_threads_;
  size_t num_values_;
  uint64_t num_runs_ = 0;
  uint64_t num_held_back_ = 0;
  Collector collector_;
  runtime::ObserverOperators operators_;
  runtime::Session session_;
  SampleCounts counts_;
  std::chrono::duration<double, std::milli> run_time_{0};
};

}  // namespace

CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options) {
  if (options.batch_size == 0) {
    Fail(ErrorCode::kInvalidArgument, "the batch size is 0, expected 1 or more");
  }
  runtime::SessionThreads(options.num_threads);  // throws if there are too many
  Calibration calibration(model, values, options);
  calibration.Run(source);
  CalibrationTable table{
      std::move(name), model.Fingerprint(), calibration.counts().num_samples, {}};
  if (table.num_samples == 0) {
    const size_t fixed = calibration.fixed_rows();
    Fail(ErrorCode::kInvalidArgument, "there are no samples to calibrate with{}",
         fixed > 1 ? fmt::format(": the model takes {} at a time, and a rest is left out", fixed)
                   : "");
  }
  for (size_t id = 0; id < values.size(); ++id) {
    table.tensors.emplace(values[id], std::move(calibration.statistics(id)));
  }
  CalibrationResult result{
      {}, std::nullopt, calibration.counts().num_left_out, calibration.run_ms()};
  if (calibration.num_held_back() > 0) {
    CalibrationTable held_back{
        table.model_name, table.model_fingerprint, calibration.num_held_back(), {}};
    for (size_t id = 0; id < values.size(); ++id) {
      held_back.tensors.emplace(values[id], std::move(calibration.held_back(id)));
    }
    table.num_samples -= calibration.num_held_back();
    result.table = table;
    result.table.Merge(held_back);
    result.parts = HeldBackTables{std::move(table), std::move(held_back)};
  } else {
    result.table = std::move(table);
  }
  return result;
}

}  // namespace bitpress::calibrate
