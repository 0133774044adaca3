#include "calibrate/guard.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/output_error.h"
#include "calibrate/leave_float.h"
#include "calibrate/noise_probe.h"
#include "calibrate/noisy_parts.h"
#include "calibrate/planned_weights.h"
#include "calibrate/products.h"
#include "calibrate/resolve_params.h"
#include "plan/qdq_placement.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// The repair aims this much higher, with room for the weights' error and for other samples.
constexpr double kMarginDb = 3;
// An activation is worth leaving float if it alone brings this share of the noise that is allowed.
// Many that bring less are no fault of a few.
constexpr double kLeastShare = 0.25;
// Fewer dB are not worth slower operators. A model that stays less accurate than wanted must not
// be slow as well: at most this share of its products become floats, and the more of them, the
// more it has to gain, from kLeastGainDb to kLargeGainDb.
constexpr double kLeastGainDb = 3;
constexpr double kLargeGainDb = 10;
constexpr double kMostShareInVain = 0.5;
// An output that stays so far below what is wanted is of no use, and integers that are fast are not
// either: then all activations become floats.
constexpr double kUselessDb = 10;
// Weights and activations that each reach what is wanted are so much below it together.
constexpr double kTogetherDb = 3;
// Other range methods are tried up to this distance above what is wanted: beyond it they change
// nothing that matters.
constexpr double kTryRangesDb = 12;
// The numbers of samples, and the elements that a measurement rounds. Activations are looked for
// with fewer of them, because that takes many measurements.
constexpr size_t kLeastSamples = 16;
constexpr size_t kLeastSearchSamples = 8;
constexpr size_t kMostSamples = 32;
constexpr double kElementsToRound = 1 << 25;
// The measurements that look for activations to leave float.
constexpr size_t kLeastMeasurements = 8;
constexpr size_t kGoodMeasurements = 48;
constexpr size_t kMostMeasurements = 512;
// Those that are allowed with all samples, where floats that repair a few of them do not repair the
// others.
constexpr size_t kAnewMeasurements = 24;

// What the guard may cost is counted in runs of the model, never in time, so that results do not
// depend on it. Calibration takes as long for a sample as about four runs, most of it for
// histograms. Runs that take about a second in all are always allowed.
constexpr double kRunsOfCalibration = 4;
constexpr double kProductsAtOnce = 2.5e10;  // the products of about a second
constexpr double kProductsOfElement = 16;   // that take as long as rounding an element
constexpr double kProductsOfNode = 1e5;     // that take as long as starting an operator
constexpr double kMostRuns = 1e5;
// The share of these runs that one measurement of all activations takes, and the least samples.
constexpr size_t kMeasurementsInAll = 8;
constexpr size_t kFirstSamples = 4;
// The share of these runs that one check of the task takes at most.
constexpr size_t kChecksInAll = 4;
// The distance, in errors of a mean, at which few samples have answered a question.
constexpr double kClear = 3;

double ToNoise(double db) { return std::pow(10, -db / 10); }

// The rows whose values share a scale. They stay integers or become floats together.
struct RoundedGroup {
  std::vector<size_t> rows;  // indices in the plan
};

// The numbers 0 .. count - 1 in an order in which each beginning is spread over all. It follows no
// period, because every other sample may be of one kind: multiples of the golden ratio are sorted
// by what is behind the point.
std::vector<size_t> SpreadOrder(size_t count) {
  constexpr uint32_t kGoldenRatio = 2654435769;  // less 1, times 2^32
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [](size_t i) { return static_cast<uint32_t>(i) * kGoldenRatio; });
  return order;
}

// The mean noise of an entry over samples, and how far that of all samples may lie from it.
struct Estimate {
  double mean = 0;
  double error = 0;
};

Estimate EstimateOf(std::span<const OutputError> errors) {
  const std::vector<double> noises = SampleNoises(errors);
  Estimate estimate{MeanNoise(errors), 0};
  const auto count = static_cast<double>(noises.size());
  if (count < 2) return {estimate.mean, estimate.mean};
  double variance = 0;
  for (const double noise : noises) variance += (noise - estimate.mean) * (noise - estimate.mean);
  estimate.error = kClear * std::sqrt(variance / (count * (count - 1)));
  return estimate;
}

bool IsGuarded(const TensorPlan& row, const plan::ResolvedPlan& resolved) {
  return row.role == plan::Role::kActivation && row.integer && !row.is_dynamic() &&
         !row.integer->params && row.Spec().element_bits <= 16 &&
         resolved.scales.contains(plan::ScaleKeyOf(row));
}

std::vector<RoundedGroup> GroupsOf(const plan::ResolvedPlan& resolved) {
  std::vector<RoundedGroup> groups;
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < resolved.plan.tensors.size(); ++i) {
    const TensorPlan& row = resolved.plan.tensors[i];
    if (!IsGuarded(row, resolved)) continue;
    const auto [found, is_new] = index.try_emplace(plan::ScaleRootOf(row), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].rows.push_back(i);
  }
  return groups;
}

class Guard {
 public:
  Guard(plan::ResolvedPlan& resolved, const graph::Model& model, const CalibrationTable& table,
        ThreadPool& pool, const GuardOptions& options)
      : resolved_(resolved),
        model_(model),
        options_(options),
        table_(table),
        pool_(pool),
        products_(model, table),
        wanted_db_(*resolved.plan.config.guard),
        most_share_(resolved.plan.config.guard_share),
        groups_(GroupsOf(resolved)) {
    for (const RoundedGroup& group : groups_) {
      for (const size_t row : group.rows) {
        rows_.push_back(row);
        if (table.num_samples == 0) continue;
        const auto found = table.tensors.find(resolved.plan.tensors[row].value);
        if (found == table.tensors.end()) continue;
        num_elements_ += static_cast<double>(found->second.num_elements()) /
                         static_cast<double>(table.num_samples);
      }
    }
    integers_ = IntegerValues(resolved);
    num_products_ = products_.Sum(plan::NeededValues(model, integers_).operators);
  }

  void Run() {
    report_.before_db = report_.after_db = ToDb(0);
    if (groups_.empty()) return;
    SetBudget();
    const bool is_short = most_runs_ < 2 * groups_.size() * kLeastSearchSamples;
    const bool has_task = options_.task && resolved_.plan.config.guard_loss > 0;
    probe_.emplace(model_, resolved_, rows_, options_.num_threads, /*in_pieces=*/is_short,
                   /*fetches_outputs=*/has_task);
    TakeSamples();
    OutputNoise before = MeasureUntilClear();
    ChooseRanges(before);
    const size_t worst = Worst(before);
    report_.worst_output = probe_->OutputOf(worst);
    report_.before_db = report_.after_db = ToDb(before[worst]);
    if (before[worst] <= ToNoise(wanted_db_)) return;
    aims_.assign(before.size(), ToNoise(wanted_db_ + kMarginDb));
    OutputNoise in_all = before;
    if (HasWeights()) {
      in_all = MeasureWeights(before);
      if (!report_.note.empty()) return;
    }
    StartTask();
    probe_->DropFloats();
    if (KeepsTask({})) return;
    Explore(before);
    std::vector<size_t> left = Repair(before, in_all);
    if (!left.empty() && !TakeFewest(left) && !HoldsForAllSamples(left)) {
      most_runs_ = std::max(most_runs_, probe_->num_runs() + kAnewMeasurements * samples_.size());
      const NoiseProbe::Measured all = MeasureAll({});
      before = NoiseOf(all.of_rounding);
      in_all = report_.weights_db ? NoiseOf(all.in_all) : before;
      Explore(before);
      left = Repair(before, in_all);
      if (!left.empty()) TakeFewest(left);
    }
    if (!left.empty()) Leave(left);
  }

  plan::GuardReport TakeReport() {
    report_.num_runs = probe_ ? probe_->num_runs() : 0;
    const auto all = checked_.find({});
    if (all != checked_.end() && !report_.task_measure.empty()) {
      report_.task_loss_before = all->second.loss;
      if (report_.num_left == 0) report_.task_loss = report_.task_loss_before;
    }
    return std::move(report_);
  }

 private:
  void SetBudget() {
    const double of_run =
        num_products_ + kProductsOfElement * num_elements_ +
        kProductsOfNode * static_cast<double>(std::max<size_t>(model_.AllNodes().size(), 1));
    most_runs_ =
        static_cast<size_t>(std::clamp(kRunsOfCalibration * static_cast<double>(table_.num_samples),
                                       std::min(kProductsAtOnce / of_run, kMostRuns), kMostRuns));
  }

  void TakeSamples() {
    AddSpreadSamples(*probe_, *options_.source,
                     std::min(SamplesFor(kLeastSamples),
                              std::max(2 * kFirstSamples, most_runs_ / kMeasurementsInAll)));
    num_samples_ = probe_->num_samples();
  }

  // Takes the samples by which the task is measured. Their runs are none of those that look for
  // activations.
  void StartTask() {
    const double most_loss = resolved_.plan.config.guard_loss / 100;
    const size_t before = probe_->num_runs();
    task_.emplace(*probe_, *options_.source, options_.task, most_loss,
                  std::clamp(most_runs_ / kChecksInAll, kLeastSamples, kMostGuardCandidates));
    most_runs_ += probe_->num_runs() - before;
    report_.why_no_task = task_->why_not();
  }

  // Returns whether the task keeps its measure without rounding the values of `left`.
  bool KeepsTask(const std::set<std::string>& left) {
    if (!task_ || !task_->CanDecide()) return false;
    const auto [checked, is_new] = checked_.try_emplace(left);
    if (is_new) {
      const size_t before = probe_->num_runs();
      TellProgress(task_->num_samples());
      checked->second = task_->Measure(RoundedRows(0, groups_.size(), left));
      most_runs_ += probe_->num_runs() - before;
      if (!task_->CanDecide()) {
        report_.why_no_task = task_->why_not();
        report_.task_measure.clear();
        report_.task_loss = 0;
        return false;
      }
    }
    report_.task_measure = task_->of_float().measure;
    report_.task_items = task_->of_float().items;
    report_.num_task_items = task_->of_float().num_items;
    report_.num_task_samples = task_->num_samples();
    report_.task_loss = checked->second.loss;
    return task_->IsKept(checked->second);
  }

  // Takes parts from the end of `left` away as long as the task keeps its measure without them.
  // Returns false if it does not keep it with all of them.
  bool TakeFewest(std::vector<size_t>& left) {
    if (!KeepsTask(FloatsWith(left))) return false;
    const auto first = [&](size_t count) {
      return std::vector<size_t>(left.begin(), left.begin() + static_cast<ptrdiff_t>(count));
    };
    size_t least = 1, most = left.size();  // none at all do not keep it
    while (least < most) {
      const size_t middle = least + (most - least) / 2;
      if (KeepsTask(FloatsWith(first(middle)))) {
        most = middle;
      } else {
        least = middle + 1;
      }
    }
    if (most < left.size()) {
      left = first(most);
      const OutputNoise noise = NoiseOf(MeasureAll(FloatsWith(left)).of_rounding);
      report_.after_db = ToDb(noise[Worst(noise)]);
      report_.left_share = ShareOf(left);
    }
    return KeepsTask(FloatsWith(left));
  }

  size_t SamplesFor(size_t least) const {
    return static_cast<size_t>(std::clamp(kElementsToRound / std::max(num_elements_, 1.0),
                                          static_cast<double>(least),
                                          static_cast<double>(kMostSamples)));
  }

  // Measures all groups with a few samples, and with more of them while it is not clear whether an
  // output fails, or all are far from that. Leaves in samples_ those to go on with.
  OutputNoise MeasureUntilClear() {
    const std::vector<size_t> order = SpreadOrder(num_samples_);
    const size_t first =
        std::min(order.size(), std::max(kFirstSamples, most_runs_ / kMeasurementsInAll));
    ComparedErrors errors;
    for (size_t count = first;; count = std::min(order.size(), 2 * count)) {
      const std::vector<size_t> more(order.begin() + std::ssize(samples_),
                                     order.begin() + static_cast<ptrdiff_t>(count));
      ComparedErrors found = Measure(0, groups_.size(), {}, more).of_rounding;
      errors.resize(found.size());
      for (size_t k = 0; k < found.size(); ++k) {
        errors[k].insert(errors[k].end(), found[k].begin(), found[k].end());
      }
      samples_.insert(samples_.end(), more.begin(), more.end());
      if (count == order.size() || IsClear(errors)) break;
    }
    report_.num_samples = samples_.size();
    samples_.resize(first);
    return NoiseOf(errors);
  }

  bool IsClear(const ComparedErrors& errors) const {
    bool is_good = true;
    for (const std::vector<OutputError>& of_entry : errors) {
      const Estimate estimate = EstimateOf(of_entry);
      if (estimate.mean - estimate.error > ToNoise(wanted_db_ - kMarginDb)) return true;
      is_good &= estimate.mean + estimate.error < ToNoise(wanted_db_ + kTryRangesDb);
    }
    return is_good;
  }

  // Measures the groups without the values of `left`.
  NoiseProbe::Measured MeasureAll(const std::set<std::string>& left) {
    return Measure(0, groups_.size(), left, samples_);
  }

  // Measures the groups begin .. end - 1 without the values of `left` with some samples.
  NoiseProbe::Measured Measure(size_t begin, size_t end, const std::set<std::string>& left,
                               std::span<const size_t> samples) {
    TellProgress(samples.size());
    return probe_->Measure(RoundedRows(begin, end, left), samples);
  }

  void TellProgress(size_t num_next) const {
    if (!options_.progress) return;
    const size_t done = probe_->num_runs();
    options_.progress("guard", done, std::max(done + num_next, most_runs_));
  }

  // Returns for each row whether it is one of the groups begin .. end - 1, and none of `left`.
  std::vector<bool> RoundedRows(size_t begin, size_t end, const std::set<std::string>& left) const {
    std::vector<bool> is_rounded;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const size_t row : groups_[g].rows) {
        is_rounded.push_back(g >= begin && g < end &&
                             !left.contains(resolved_.plan.tensors[row].value));
      }
    }
    return is_rounded;
  }

  // Gives activations another range method if the outputs gain by that. `noise` is that of the
  // present ranges, before and after.
  void ChooseRanges(OutputNoise& noise) {
    const plan::QuantConfig& config = resolved_.plan.config;
    if (config.guard_ranges.empty() || noise[Worst(noise)] <= ToNoise(wanted_db_ + kTryRangesDb)) {
      return;
    }
    // Methods are compared with the same samples.
    if (report_.num_samples > samples_.size()) noise = NoiseOf(MeasureAll({}).of_rounding);
    const double first_db = ToDb(noise[Worst(noise)]);
    double least = noise[Worst(noise)] * ToNoise(kLeastRangeGainDb);
    struct {
      std::vector<TensorPlan> rows;
      plan::ScaleTable scales;
    } chosen;
    for (const plan::RangeMethod& method : config.guard_ranges) {
      plan::QuantPlan plan = resolved_.plan;
      for (TensorPlan& row : plan.tensors) {
        if (row.role != plan::Role::kActivation || !row.integer || row.integer->params) continue;
        if (row.integer->range == config.activation_range) row.integer->range = method;
      }
      plan::ScaleTable scales = ResolveParams(plan, table_).scales;
      probe_->SetScales(scales);
      const OutputNoise found = NoiseOf(MeasureAll({}).of_rounding);
      if (found[Worst(found)] >= least) continue;
      least = found[Worst(found)];
      noise = found;
      report_.range_method = plan::RangeMethodName(method);
      report_.first_db = first_db;
      chosen = {std::move(plan.tensors), std::move(scales)};
    }
    if (!report_.range_method.empty()) {
      resolved_.plan.tensors = std::move(chosen.rows);
      for (const auto& [key, params] : chosen.scales) resolved_.scales[key] = params;
    }
    probe_->SetScales(resolved_.scales);
  }

  static size_t Worst(const OutputNoise& noise) {
    return static_cast<size_t>(std::ranges::max_element(noise) - noise.begin());
  }

  // Returns whether the weights are quantized, and not learned from samples afterwards.
  bool HasWeights() const {
    return resolved_.plan.config.finetune.empty() &&
           std::ranges::any_of(resolved_.plan.tensors, [](const TensorPlan& row) {
             return row.role == plan::Role::kWeight && row.is_quantized();
           });
  }

  // Goes on with the weights as they are planned. Returns the noise with all roundings, and gives
  // in `noise` that of the activations. Notes it if no floats can repair an output because of
  // the weights.
  OutputNoise MeasureWeights(OutputNoise& noise) {
    // The outputs of the float weights must be known of all samples before these weights are gone.
    static_cast<void>(Measure(0, 0, {}, SpreadOrder(num_samples_)));
    probe_->UseWeights(WithPlannedWeights(model_, resolved_, pool_), resolved_, rows_);
    const OutputNoise weights = NoiseOf(Measure(0, 0, {}, samples_).in_all);
    const NoiseProbe::Measured all = MeasureAll({});
    OutputNoise in_all = NoiseOf(all.in_all);
    noise = NoiseOf(all.of_rounding);
    // Activations that are better than the weights help nobody.
    for (size_t k = 0; k < weights.size(); ++k) aims_[k] = std::max(aims_[k], weights[k]);
    const size_t worst = Worst(weights);
    report_.weights_db = ToDb(weights[worst]);
    if (!Reaches(*report_.weights_db)) most_share_ = std::min(most_share_, kMostShareInVain);
    blames_weights_ = fmt::format(
        "the weights alone bring {} to {:.1f} dB, so that floats would repair little, and all "
        "activations stay integers; fine-tuning (finetune=adaquant) or more bits for the layers "
        "that need them would",
        probe_->NameOf(worst), *report_.weights_db);
    if (!IsWorth(in_all, weights, 0)) report_.note = blames_weights_;
    return in_all;
  }

  bool Reaches(double db) const { return db >= wanted_db_ - kTogetherDb; }

  // Returns whether it is worth a share of the products as floats if that brings the noises from
  // one to the other: for some output that fails.
  bool IsWorth(const OutputNoise& before, const OutputNoise& after, double share) const {
    const double in_vain =
        kLeastGainDb + (kLargeGainDb - kLeastGainDb) * std::min(share / kMostShareInVain, 1.0);
    for (size_t k = 0; k < before.size(); ++k) {
      const double after_db = ToDb(after[k]);
      const double least = ToDb(before[k]) + (Reaches(after_db) ? kLeastGainDb : in_vain);
      if (before[k] > ToNoise(wanted_db_) && after_db >= least) return true;
    }
    return false;
  }

  // Finds the parts of the groups that may matter.
  void Explore(const OutputNoise& noise) {
    // The last measurements say what the repair gains.
    const size_t kept = probe_->num_runs() + 2 * samples_.size();
    const size_t left = most_runs_ > kept ? most_runs_ - kept : 0;
    const size_t good = std::min(2 * groups_.size(), kGoodMeasurements);
    const size_t count = std::clamp(left / good, size_t{1},
                                    std::min(samples_.size(), SamplesFor(kLeastSearchSamples)));
    const std::span<const size_t> samples = std::span<const size_t>(samples_).first(count);
    // With few samples, parts may look louder or quieter than they are with all of them.
    const OutputNoise of_search =
        count == report_.num_samples ? noise
                                     : NoiseOf(Measure(0, groups_.size(), {}, samples).of_rounding);
    // Runs that begin in the middle of a model cost half of one.
    const size_t per_run = probe_->num_pieces() > 1 ? 2 : 1;
    const PartSearch search{
        aims_, kLeastShare,
        std::clamp(per_run * left / count, kLeastMeasurements, kMostMeasurements),
        [&](size_t begin, size_t end) {
          OutputNoise found = NoiseOf(Measure(begin, end, {}, samples).of_rounding);
          for (size_t k = 0; k < found.size(); ++k) {
            if (of_search[k] > 0) found[k] *= noise[k] / of_search[k];
          }
          return found;
        }};
    parts_ = FindNoisyParts(groups_.size(), noise, search);
  }

  // Returns the part that brings most noise into an output that has too much, single groups first;
  // nothing if no part is worth it.
  std::optional<size_t> Next(const OutputNoise& noise, const std::set<size_t>& tried) const {
    for (const bool is_single : {true, false}) {
      std::optional<size_t> found;
      double most = kLeastShare;
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (tried.contains(i) || (parts_[i].size() == 1) != is_single) continue;
        for (size_t k = 0; k < noise.size(); ++k) {
          if (noise[k] <= aims_[k] || parts_[i].noise[k] / aims_[k] <= most) continue;
          most = parts_[i].noise[k] / aims_[k];
          found = i;
        }
      }
      if (found) return found;
    }
    return std::nullopt;
  }

  std::set<std::string> ValuesOf(const std::vector<size_t>& parts) const {
    std::set<std::string> values;
    for (const size_t i : parts) {
      for (size_t g = parts_[i].begin; g < parts_[i].end; ++g) {
        for (const size_t row : groups_[g].rows) values.insert(resolved_.plan.tensors[row].value);
      }
    }
    return values;
  }

  // Returns the share of the products that become floats with these parts.
  double ShareOf(const std::vector<size_t>& parts) const {
    std::set<std::string> rest = integers_;
    for (const std::string& value : ValuesOf(parts)) rest.erase(value);
    return num_products_ > 0
               ? 1 - products_.Sum(plan::NeededValues(model_, rest).operators) / num_products_
               : 0;
  }

  // Returns the parts to leave float, if that is worth it, the loudest first; none otherwise, with
  // a note. `before_in_all` is with the weights' error.
  std::vector<size_t> Repair(const OutputNoise& before, const OutputNoise& before_in_all) {
    std::set<size_t> tried;
    std::vector<size_t> left;
    OutputNoise noise = before;
    OutputNoise of_rounding = before;
    OutputNoise in_all = before_in_all;
    for (;;) {
      // The sum of the single noises says which parts to leave, and a measurement if it is right.
      const size_t num_before = left.size();
      while (const std::optional<size_t> next = Next(noise, tried)) {
        tried.insert(*next);
        left.push_back(*next);
        const double share = ShareOf(left);
        if (share > most_share_) {
          left.pop_back();
          report_.has_reached_bound |= share > resolved_.plan.config.guard_share;
          continue;
        }
        report_.left_share = share;
        for (size_t k = 0; k < noise.size(); ++k) {
          noise[k] = std::max(0.0, noise[k] - parts_[*next].noise[k]);
        }
      }
      if (left.size() == num_before) break;
      const NoiseProbe::Measured measured = MeasureAll(FloatsWith(left));
      noise = of_rounding = NoiseOf(measured.of_rounding);
      in_all = report_.weights_db ? NoiseOf(measured.in_all) : of_rounding;
    }
    const double after_db = ToDb(in_all[Worst(in_all)]);
    const double share = report_.left_share;
    const bool is_in_vain =
        !IsWorth(before_in_all, in_all, share) || (!Reaches(after_db) && share > kMostShareInVain);
    if (is_in_vain && (left.empty() || !KeepsTask(FloatsWith(left)))) {
      const double before_db = ToDb(before_in_all[Worst(before_in_all)]);
      if (before_db < wanted_db_ - kUselessDb && MayAllBeFloat()) return AllAsOnePart(before);
      report_.left_share = 0;
      report_.note =
          report_.has_reached_bound ? "no activations within guard_share would repair it"
          : after_db >= before_db + kLeastGainDb
              ? fmt::format("floats would bring it to {:.1f} dB only, so that all stay integers",
                            after_db)
          : report_.weights_db && !Reaches(*report_.weights_db)
              ? blames_weights_
              : "no few activations are to blame, so that all stay integers";
      return {};
    }
    report_.after_db = ToDb(of_rounding[Worst(of_rounding)]);
    return left;
  }

  // Returns whether the weights alone are near enough, and all products may become floats.
  bool MayAllBeFloat() const {
    return most_share_ >= 1 && (!report_.weights_db || Reaches(*report_.weights_db));
  }

  // Makes all groups one part, which is left float: `noise` is what their rounding brings.
  std::vector<size_t> AllAsOnePart(const OutputNoise& noise) {
    parts_ = {{0, groups_.size(), noise}};
    report_.left_share = ShareOf({0});
    report_.after_db = plan::GuardReport::kNoNoiseDb;
    return {0};
  }

  // Returns the values that become floats with these parts.
  std::set<std::string> FloatsWith(const std::vector<size_t>& parts) const {
    std::set<std::string> values = ValuesOf(parts);
    values.merge(IdleValues(model_, integers_, values));
    return values;
  }

  // Measures what the parts leave with all samples, because the few that found them may not stand
  // for the others. Returns whether that is as wanted, or about what the few show.
  bool HoldsForAllSamples(const std::vector<size_t>& parts) {
    if (samples_.size() == num_samples_) return true;
    const double of_few = report_.after_db;
    samples_ = SpreadOrder(num_samples_);
    const OutputNoise noise = NoiseOf(MeasureAll(FloatsWith(parts)).of_rounding);
    report_.num_samples = samples_.size();
    report_.after_db = ToDb(noise[Worst(noise)]);
    return Reaches(report_.after_db) || report_.after_db > of_few - kMarginDb;
  }

  void Leave(const std::vector<size_t>& left_parts) {
    std::map<std::string, std::string> reasons;
    for (const size_t i : left_parts) {
      const NoisyPart& part = parts_[i];
      const size_t k = Worst(part.noise);
      const std::string who =
          part.size() == 1
              ? "its rounding alone"
              : fmt::format("rounding it and its neighbours, {} in all, alone", part.size());
      for (const std::string& value : ValuesOf({i})) {
        reasons[value] = fmt::format("{} brings the error of {} to {:.1f} dB", who,
                                     probe_->NameOf(k), ToDb(part.noise[k]));
      }
    }
    report_.num_left = LeaveFloat(resolved_, model_, reasons, "guard");
  }

  plan::ResolvedPlan& resolved_;
  const graph::Model& model_;
  const GuardOptions& options_;
  const CalibrationTable& table_;
  ThreadPool& pool_;
  Products products_;
  double wanted_db_;
  double most_share_;           // of the products that may become floats
  std::string blames_weights_;  // what a note says if floats repair little because of the weights
  std::vector<double> aims_;    // the noise of each entry of the probe that the repair aims at
  std::vector<RoundedGroup> groups_;
  std::vector<size_t> rows_;        // of all groups, one after the other
  double num_elements_ = 0;         // elements of all rows for one sample
  std::set<std::string> integers_;  // the integer activations of the plan
  double num_products_ = 0;         // their products
  std::optional<NoiseProbe> probe_;
  size_t num_samples_ = 0;  // of the probe, without those for the task alone
  std::optional<TaskCheck> task_;
  std::map<std::set<std::string>, MeasuredLoss> checked_;  // the losses by the values left float
  size_t most_runs_ = 0;
  std::vector<size_t> samples_;   // to measure with
  std::vector<NoisyPart> parts_;  // that may matter, the loudest of one size first
  plan::GuardReport report_;
};

}  // namespace

void GuardActivations(plan::ResolvedPlan& resolved, const graph::Model& model,
                      const CalibrationTable& table, ThreadPool& pool,
                      const GuardOptions& options) {
  if (!resolved.plan.config.guard) return;
  if (plan::ResolvePlacement(resolved.plan.config) != plan::Placement::kQdq) {
    resolved.guard.emplace().note = "it is for placement qdq only";
    return;
  }
  Guard guard(resolved, model, table, pool, options);
  guard.Run();
  resolved.guard = guard.TakeReport();
}

}  // namespace bitpress::calibrate
