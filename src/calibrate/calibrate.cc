#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/messages.h"
#include "base/processors.h"
#include "calibrate/collector.h"
#include "calibrate/instrument.h"
#include "calibrate/piece_runs.h"
#include "calibrate/sample_runs.h"
#include "graph/stored_bytes.h"
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

// The observers of one piece.
struct PieceObservers {
  PieceObservers(Collector& collector, std::vector<int64_t> ids)
      : sink(collector, std::move(ids)), operators(sink) {}
  Renumbered sink;
  runtime::ObserverOperators operators;
};

}  // namespace

class Calibrator::Impl {
 public:
  Impl(const graph::Model& model, std::string name, std::vector<std::string> values,
       CalibrateOptions options)
      : options_(std::move(options)),
        num_threads_(options_.num_threads > 0 ? options_.num_threads : UsableProcessors()),
        model_(model),
        name_(std::move(name)),
        fingerprint_(model.Fingerprint()),
        values_(std::move(values)),
        collector_(options_.hold_back_every > 0 ? 2 * values_.size() : values_.size(), num_threads_,
                   options_.adds_sums) {}

  CalibrationResult Count(data::Source& source, const ProgressSink& progress) {
    Begin();
    Run(source, progress);
    CalibrationTable table{name_, fingerprint_, counts_.num_samples, {}, failures_.SortedNames()};
    if (table.num_samples == 0 && table.left_out.empty()) {
      Fail(ErrorCode::kInvalidArgument, "there are no samples to calibrate with{}",
           fixed_rows_ > 1
               ? fmt::format(": the model takes {} at a time, and a rest is left out", fixed_rows_)
               : "");
    }
    for (size_t id = 0; id < values_.size(); ++id) {
      table.tensors.emplace(values_[id], std::move(StatisticsOf(id)));
    }
    CalibrationResult result{
        {}, std::nullopt, counts_.num_left_out, failures_.samples(), run_time_.count()};
    if (num_held_back_ > 0) {
      CalibrationTable kept_apart{
          table.model_name, table.model_fingerprint, num_held_back_, {}, {}};
      for (size_t id = 0; id < values_.size(); ++id) {
        kept_apart.tensors.emplace(values_[id], std::move(held_back(id)));
      }
      table.num_samples -= num_held_back_;
      result.table = table;
      result.table.Merge(kept_apart);
      result.parts = HeldBackTables{std::move(table), std::move(kept_apart)};
    } else {
      result.table = std::move(table);
    }
    return result;
  }

 private:
  bool may_fail() const { return options_.most_failures > 0; }
  TensorStatistics& StatisticsOf(size_t id) {
    return may_fail() && session_ ? kept_[id] : collector_.statistics(id);
  }

  // Sets the statistics of a value to those of no sample.
  void Clear(size_t id, TensorStatistics& statistics) const {
    statistics = {};
    const bool is_cache = options_.caches.contains(values_[id]);
    const auto axis = options_.axes.find(values_[id]);
    if (!is_cache && axis == options_.axes.end()) return;
    const int64_t slices = is_cache ? -1 : axis->second;
    statistics.set_axis(slices, is_cache ? std::optional<int64_t>(1) : std::nullopt);
  }

  // Forgets what the collector counted.
  void ClearCollector() {
    collector_.Clear();
    for (size_t id = 0; id < values_.size(); ++id) {
      Clear(id, collector_.statistics(id));
      if (options_.hold_back_every > 0) Clear(id, held_back(id));
    }
  }

  // Forgets what was counted.
  void Begin() {
    ClearCollector();
    kept_.resize(may_fail() ? values_.size() : 0);
    for (size_t id = 0; id < kept_.size(); ++id) Clear(id, kept_[id]);
    counts_ = {};
    num_runs_ = 0;
    num_held_back_ = 0;
    run_time_ = {};
    failures_ = data::Failures(options_.most_failures);
  }

  void Run(data::Source& source, const ProgressSink& progress) {
    if (!session_ && !pieces_) Load(source);
    if (may_fail() && fixed_rows_ > 1) {
      Fail(ErrorCode::kInvalidArgument,
           "{} needs a model that takes one sample at a time; this one takes {}",
           OptionName("most-failures"), fixed_rows_);
    }
    if (session_) return RunWhole(source, progress);
    std::set<size_t> failed_runs;
    while (!RunPieces(source, progress, failed_runs)) {
      // Earlier pieces have counted what failed in a later one.
      ClearCollector();
    }
    counts_.num_samples -= failed_runs.size();
  }

  // Runs all samples but the failed ones through the pieces. Returns false if others failed, which
  // are added to them.
  bool RunPieces(data::Source& source, const ProgressSink& progress,
                 std::set<size_t>& failed_runs) {
    const bool is_first = failed_runs.empty();
    size_t piece = 0;
    pieces_->Begin(source, [&](std::string_view stage, size_t done, size_t total) {
      // Each piece sees all samples, and together they are one pass.
      const size_t num_pieces = pieces_->num_pieces();
      if (progress) progress(stage, (piece * total + done) / num_pieces, total);
    });
    for (; piece < pieces_->num_pieces(); ++piece) {
      PiecePass pass;
      for (const std::string& value : values_) {
        if (pieces_->PieceOf(value) == piece) pass.observed.push_back(value);
      }
      pass.operators = &observers_[piece]->operators;
      num_runs_ = 0;
      num_held_back_ = 0;
      size_t current = 0;
      const size_t num_failed = failed_runs.size();
      pass.begins = [&](size_t run) {
        current = run;
        if (failed_runs.contains(run)) return false;
        BeginSample(std::max<size_t>(fixed_rows_, 1));
        return true;
      };
      pass.take = [&](size_t, std::span<const Tensor>) { EndSample(); };
      if (may_fail()) {
        pass.failures.failed = [&](data::FailedSample sample) {
          failures_.Add(std::move(sample));
          failed_runs.insert(current);
        };
        // Every pass meets the samples that cannot be read, so only the first one counts them.
        if (is_first && piece == 0) {
          pass.failures.unread = [&](data::FailedSample sample) {
            failures_.Add(std::move(sample));
          };
        }
      }
      counts_ = pieces_->Run(piece, pass);
      if (failed_runs.size() > num_failed) return false;
    }
    return true;
  }

  // Loads the model whole, or cuts it into pieces.
  void Load(data::Source& source) {
    cut_.emplace(model_.Clone());
    pieces_.emplace(*cut_, values_, source,
                    PieceOptions{.most_bytes = options_.most_piece_bytes,
                                 .num_threads = num_threads_,
                                 .batch_size = options_.batch_size,
                                 .operator_library = options_.operator_library,
                                 .keeps_sessions = KeepsPieces(),
                                 .stage = "calibrate"});
    if (pieces_->num_pieces() == 1) {
      pieces_.reset();
      cut_.reset();
      LoadWhole();
      return;
    }
    fixed_rows_ = pieces_->rows_of_run();
    for (size_t piece = 0; piece < pieces_->num_pieces(); ++piece) {
      std::vector<int64_t> ids;
      for (size_t id = 0; id < values_.size(); ++id) {
        if (pieces_->PieceOf(values_[id]) == piece) ids.push_back(static_cast<int64_t>(id));
      }
      observers_.push_back(std::make_unique<PieceObservers>(collector_, std::move(ids)));
    }
  }

  bool KeepsPieces() const {
    return options_.most_kept_bytes > 0 &&
           graph::MeasureParts(model_).constants <= options_.most_kept_bytes;
  }

  void LoadWhole() {
    graph::Model observed = model_.Clone();
    InsertObservers(observed, values_);
    runtime::SessionOptions session;
    session.num_threads = static_cast<int>(num_threads_);
    session.operator_library = options_.operator_library;
    operators_.emplace(collector_);
    session.observers = &*operators_;
    session_.emplace(runtime::Session::FromModel(observed, session));
    fixed_rows_ = FixedRows(session_->inputs());
  }

  void RunWhole(data::Source& source, const ProgressSink& progress) {
    counts_ = RunSamples(
        source, session_->inputs(), options_.batch_size,
        [&](const std::vector<Tensor>& inputs, size_t count) {
          BeginSample(count);
          session_->Run(inputs);
          EndSample();
        },
        "calibrate", progress, RulesForWhole());
  }

  // The counts of a few samples are added to those that are kept when all of them have run.
  FailureRules RulesForWhole() {
    if (!may_fail()) return {};
    const auto add = [this](data::FailedSample sample) { failures_.Add(std::move(sample)); };
    return {.unread = add,
            .failed = add,
            .discard = [this] { ClearCollector(); },
            .keep =
                [this] {
                  for (size_t id = 0; id < values_.size(); ++id) {
                    kept_[id].Merge(collector_.statistics(id));
                  }
                  ClearCollector();
                }};
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

  // Returns the statistics of a value over the samples that were held back. REQUIRES: some may be.
  TensorStatistics& held_back(size_t id) { return collector_.statistics(values_.size() + id); }

  CalibrateOptions options_;
  size_t num_threads_;
  const graph::Model& model_;
  std::string name_;
  uint64_t fingerprint_;
  std::vector<std::string> values_;
  size_t fixed_rows_ = 0;

  // The counts.
  Collector collector_;
  std::vector<TensorStatistics> kept_;  // of samples that surely ran; empty if none may fail
  data::Failures failures_{0};
  SampleCounts counts_;
  uint64_t num_runs_ = 0;
  uint64_t num_held_back_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::duration<double, std::milli> run_time_{0};

  // The model as it is loaded: whole, or in pieces. Observers stand before the sessions that have
  // them.
  std::optional<runtime::ObserverOperators> operators_;
  std::optional<runtime::Session> session_;
  std::vector<std::unique_ptr<PieceObservers>> observers_;
  std::optional<graph::Model> cut_;
  std::optional<PieceRuns> pieces_;
};

Calibrator::Calibrator(const graph::Model& model, std::string name, std::vector<std::string> values,
                       CalibrateOptions options) {
  if (options.batch_size == 0) {
    Fail(ErrorCode::kInvalidArgument, "the batch size is 0, expected 1 or more");
  }
  runtime::SessionThreads(options.num_threads);  // throws if there are too many
  impl_ = std::make_unique<Impl>(model, std::move(name), std::move(values), std::move(options));
}
Calibrator::~Calibrator() = default;
Calibrator::Calibrator(Calibrator&&) noexcept = default;
Calibrator& Calibrator::operator=(Calibrator&&) noexcept = default;

CalibrationResult Calibrator::Count(data::Source& source, const ProgressSink& progress) {
  return impl_->Count(source, progress);
}

CalibrationResult Calibrate(const graph::Model& model, std::string name,
                            std::span<const std::string> values, data::Source& source,
                            const CalibrateOptions& options) {
  return Calibrator(model, std::move(name), {values.begin(), values.end()}, options)
      .Count(source, options.progress);
}

}  // namespace bitpress::calibrate
