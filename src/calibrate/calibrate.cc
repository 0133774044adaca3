#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "calibrate/collector.h"
#include "calibrate/instrument.h"
#include "calibrate/piece_runs.h"
#include "calibrate/sample_runs.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {
namespace {

// Shows values to the collector under their own ids: those of a piece are numbered anew.
class Renumbered : public runtime::ObserverSink {
 public:
  Renumbered(Collector& collector, std::vector<int64_t> ids)
      : collector_(collector), ids_(std::move(ids)) {}
  void Observe(const runtime::ObservedTensor& tensor,
               const runtime::ParallelTasks& run_parallel) override {
    // The id is an attribute of a node, which a model's file may have, too.
    if (tensor.id < 0 || static_cast<size_t>(tensor.id) >= ids_.size()) {
      Fail(ErrorCode::kRuntime, "an observer has the id {}, expected 0 to {}", tensor.id,
           std::ssize(ids_) - 1);
    }
    runtime::ObservedTensor renumbered = tensor;
    renumbered.id = ids_[static_cast<size_t>(tensor.id)];
    collector_.Observe(renumbered, run_parallel);
  }

 private:
  Collector& collector_;
  std::vector<int64_t> ids_;
};

class Calibration {
 public:
  Calibration(const graph::Model& model, std::span<const std::string> values,
              const CalibrateOptions& options)
      : options_(options),
        num_threads_(options.num_threads > 0
                         ? options.num_threads
                         : std::max<size_t>(1, std::thread::hardware_concurrency())),
        model_(model),
        values_(values),
        collector_(options.hold_back_every > 0 ? 2 * values.size() : values.size(), num_threads_) {
    for (size_t id = 0; id < values.size(); ++id) {
      const bool is_cache = options_.caches.contains(values[id]);
      const auto axis = options_.axes.find(values[id]);
      if (!is_cache && axis == options_.axes.end()) continue;
      const int64_t slices = is_cache ? -1 : axis->second;
      const std::optional<int64_t> heads = is_cache ? std::optional<int64_t>(1) : std::nullopt;
      collector_.statistics(id).set_axis(slices, heads);
      if (options_.hold_back_every > 0) held_back(id).set_axis(slices, heads);
    }
  }

  void Run(data::Source& source) {
    graph::Model observed = model_.Clone();
    PieceRuns runs(observed, values_, source,
                   {.most_bytes = options_.most_piece_bytes,
                    .num_threads = num_threads_,
                    .batch_size = options_.batch_size,
                    .operator_library = options_.operator_library,
                    .stage = "calibrate",
                    .progress = options_.progress});
    if (runs.num_pieces() == 1) return RunWhole(source);
    fixed_rows_ = runs.rows_of_run();
    for (size_t piece = 0; piece < runs.num_pieces(); ++piece) {
      std::vector<int64_t> ids;
      PiecePass pass;
      for (size_t id = 0; id < values_.size(); ++id) {
        if (runs.PieceOf(values_[id]) != piece) continue;
        ids.push_back(static_cast<int64_t>(id));
        pass.observed.push_back(values_[id]);
      }
      Renumbered sink(collector_, std::move(ids));
      const runtime::ObserverOperators operators(sink);
      pass.operators = &operators;
      num_runs_ = 0;
      num_held_back_ = 0;
      pass.begins = [&](size_t) {
        BeginSample(std::max<size_t>(fixed_rows_, 1));
        return true;
      };
      pass.take = [&](size_t, std::span<const Tensor>) { EndSample(); };
      counts_ = runs.Run(piece, pass);
    }
  }

  const SampleCounts& counts() const { return counts_; }
  double run_ms() const { return run_time_.count(); }
  // Returns the statistics of a value over the samples that were not held back.
  TensorStatistics& statistics(size_t id) { return collector_.statistics(id); }
  // Returns those over the others. REQUIRES: some may be held back.
  TensorStatistics& held_back(size_t id) { return collector_.statistics(values_.size() + id); }
  uint64_t num_held_back() const { return num_held_back_; }
  size_t fixed_rows() const { return fixed_rows_; }

 private:
  void RunWhole(data::Source& source) {
    const runtime::ObserverOperators operators(collector_);
    runtime::Session session = Load(operators);
    fixed_rows_ = FixedRows(session.inputs());
    counts_ = RunSamples(
        source, session.inputs(), options_.batch_size,
        [&](const std::vector<Tensor>& inputs, size_t count) {
          BeginSample(count);
          session.Run(inputs);
          EndSample();
        },
        "calibrate", options_.progress);
  }

  runtime::Session Load(const runtime::ObserverOperators& operators) {
    // The model goes through a file, which ONNX Runtime maps. In memory the weights would be twice.
    const ScratchFolder folder;
    const std::filesystem::path path = folder.path() / "observed.onnx";
    {
      graph::Model observed = model_.Clone();
      InsertObservers(observed, values_);
      observed.Save(path, graph::ExternalData::kAlways);
    }
    runtime::SessionOptions session;
    session.num_threads = static_cast<int>(num_threads_);
    session.operator_library = options_.operator_library;
    session.observers = &operators;
    return runtime::Session(path, session);
  }

  void BeginSample(size_t count) {
    const bool is_held_back =
        options_.hold_back_every > 0 && ++num_runs_ % options_.hold_back_every == 0;
    collector_.set_offset(is_held_back ? values_.size() : 0);
    if (is_held_back) num_held_back_ += count;
    start_ = std::chrono::steady_clock::now();
  }
  void EndSample() {
    collector_.EndSample();
    run_time_ += std::chrono::steady_clock::now() - start_;
  }

  const CalibrateOptions& options_;
  size_t num_threads_;
  const graph::Model& model_;
  std::span<const std::string> values_;
  uint64_t num_runs_ = 0;
  uint64_t num_held_back_ = 0;
  size_t fixed_rows_ = 0;
  Collector collector_;
  SampleCounts counts_;
  std::chrono::steady_clock::time_point start_;
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
