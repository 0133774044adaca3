#include "calibrate/guard.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "calibrate/leave_float.h"
#include "calibrate/noise_probe.h"
#include "calibrate/products.h"
#include "calibrate/resolve_params.h"
#include "calibrate/sample_runs.h"
#include "plan/qdq_placement.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

// Mending aims this much higher, with room for the weights' error and for other samples.
constexpr double kMarginDb = 3;
// An activation is worth mending if it alone brings this share of the noise that is allowed. Many
// that bring less are no fault of a few.
constexpr double kLeastShare = 0.25;
// Fewer dB are not worth slower operators.
constexpr double kLeastGainDb = 3;
// Other range methods are tried up to this distance above what is wanted. Few samples say little of
// smaller gains, and above that nobody hears them.
constexpr double kTryRangesDb = 12;
constexpr double kLeastRangeGainDb = 1;
// The numbers of samples, and the elements that a measurement rounds. Activations are looked for
// with fewer of them, because that takes many measurements.
constexpr size_t kLeastSamples = 16;
constexpr size_t kLeastSearchSamples = 8;
constexpr size_t kMostSamples = 32;
constexpr double kElementsToRound = 1 << 25;
// The measurements that look for activations to mend, and the elements that they round in all.
constexpr double kLeastMeasurements = 48;
constexpr double kMostMeasurements = 512;
constexpr double kElementsInAll = 0x1p33;

double ToDb(double noise) {
  return noise > 0 ? 10 * std::log10(1 / noise) : plan::GuardReport::kNoNoiseDb;
}
double ToNoise(double db) { return std::pow(10, -db / 10); }

// Returns a number below `size` that has no pattern over the parts.
size_t PlaceIn(size_t part, size_t size) {
  return static_cast<size_t>(std::mt19937(static_cast<uint32_t>(part))() % size);
}

// The rows whose values share a scale. They stay integers or become floats together.
struct RoundedGroup {
  std::vector<size_t> rows;  // indices in the plan
};

// Some groups that follow each other, and the noise if they alone are rounded.
struct Part {
  size_t begin;
  size_t end;
  OutputNoise noise;

  size_t size() const { return end - begin; }
};

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
        const GuardOptions& options)
      : resolved_(resolved),
        model_(model),
        options_(options),
        table_(table),
        products_(model, table),
        wanted_(ToNoise(*resolved.plan.config.guard_db)),
        aim_(ToNoise(*resolved.plan.config.guard_db + kMarginDb)),
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
  }

  void Run() {
    report_.before_db = report_.after_db = ToDb(0);
    if (groups_.empty()) return;
    probe_.emplace(model_, resolved_, rows_, options_.num_threads);
    TakeSamples();
    report_.num_samples = probe_->num_samples();
    OutputNoise before = MeasureAll({});
    ChooseRanges(before);
    const size_t worst = Worst(before);
    report_.worst_output = probe_->OutputNames().at(worst);
    report_.before_db = report_.after_db = ToDb(before[worst]);
    if (before[worst] <= wanted_) return;
    Explore(before);
    Mend(before);
  }

  plan::GuardReport TakeReport() { return std::move(report_); }

 private:
  // Takes one sample of each of many equal parts of the source, but the same ones every time. Their
  // distances differ, because samples of several kinds often take turns.
  void TakeSamples() {
    const size_t num_known = options_.source->num_samples();
    const double fitting = kElementsToRound / std::max(num_elements_, 1.0);
    const auto samples = [&](size_t least) {
      return static_cast<size_t>(
          std::clamp(fitting, static_cast<double>(least), static_cast<double>(kMostSamples)));
    };
    const size_t wanted = samples(kLeastSamples);
    const size_t step = std::max<size_t>(1, num_known / wanted);
    size_t position = 0;
    RunSamples(*options_.source, probe_->inputs(), 1,
               [&](const std::vector<Tensor>& inputs, size_t count) {
                 const size_t part = position / step;
                 if (part < wanted && position % step == PlaceIn(part, step)) {
                   probe_->AddSample(inputs);
                 }
                 position += count;
               },
               "", {});
    if (probe_->num_samples() == 0) {
      Fail(ErrorCode::kInvalidArgument, "there are no samples to measure roundings with");
    }
    const size_t most = samples(kLeastSearchSamples);
    search_step_ = (probe_->num_samples() + most - 1) / most;
  }

  // Measures the noise of the groups without the values of `left`.
  OutputNoise MeasureAll(const std::set<std::string>& left) {
    return Measure(0, groups_.size(), left, 1);
  }

  // Measures the noise of the groups begin .. end - 1 without the values of `left` with every
  // `step`-th sample.
  OutputNoise Measure(size_t begin, size_t end, const std::set<std::string>& left, size_t step) {
    std::vector<bool> is_rounded;
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const size_t row : groups_[g].rows) {
        is_rounded.push_back(g >= begin && g < end &&
                             !left.contains(resolved_.plan.tensors[row].value));
      }
    }
    if (options_.progress) options_.progress("guard", ++num_measured_, 0);
    return probe_->Measure(is_rounded, step);
  }

  // Gives activations another range method if the outputs gain by that. `noise` is that of the
  // present ranges, before and after.
  void ChooseRanges(OutputNoise& noise) {
    const plan::QuantConfig& config = resolved_.plan.config;
    if (noise[Worst(noise)] <= ToNoise(*config.guard_db + kTryRangesDb)) return;
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
      const OutputNoise found = MeasureAll({});
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

  // Finds the groups that may matter, with their noises: the loudest parts are halved first. What
  // the number of measurements does not suffice for stays in parts of several groups.
  void Explore(const OutputNoise& of_all) {
    const auto is_quieter = [](const Part& one, const Part& other) {
      return std::pair(one.noise[Worst(one.noise)], other.begin) <
             std::pair(other.noise[Worst(other.noise)], one.begin);
    };
    const double num_rounded =
        num_elements_ * static_cast<double>(probe_->num_samples() / search_step_);
    const auto most = static_cast<size_t>(std::clamp(kElementsInAll / std::max(num_rounded, 1.0),
                                                     kLeastMeasurements, kMostMeasurements));
    std::priority_queue<Part, std::vector<Part>, decltype(is_quieter)> queue(is_quieter);
    queue.push({0, groups_.size(), of_all});
    for (size_t count = 0; !queue.empty();) {
      const Part part = queue.top();
      queue.pop();
      if (part.noise[Worst(part.noise)] < kLeastShare * aim_) return;
      if (part.size() == 1 || count >= most) {
        parts_.push_back(part);
        continue;
      }
      const size_t middle = part.begin + part.size() / 2;
      queue.push({part.begin, middle, Measure(part.begin, middle, {}, search_step_)});
      queue.push({middle, part.end, Measure(middle, part.end, {}, search_step_)});
      count += 2;
    }
  }

  // Returns the part that brings most noise into an output that has too much, single groups first;
  // nothing if no part is worth it.
  std::optional<size_t> Next(const OutputNoise& noise, const std::set<size_t>& tried) const {
    for (const bool is_single : {true, false}) {
      std::optional<size_t> found;
      double most = kLeastShare * aim_;
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (tried.contains(i) || (parts_[i].size() == 1) != is_single) continue;
        for (size_t k = 0; k < noise.size(); ++k) {
          if (noise[k] <= aim_ || parts_[i].noise[k] <= most) continue;
          most = parts_[i].noise[k];
          found = i;
        }
      }
      if (found) return found;
    }
    return std::nullopt;
  }

  std::set<std::string> ValuesOf(const std::set<size_t>& parts) const {
    std::set<std::string> values;
    for (const size_t i : parts) {
      for (size_t g = parts_[i].begin; g < parts_[i].end; ++g) {
        for (const size_t row : groups_[g].rows) values.insert(resolved_.plan.tensors[row].value);
      }
    }
    return values;
  }

  // Returns the share of the products that become floats with these parts.
  double ShareOf(const std::set<size_t>& parts) const {
    std::set<std::string> rest = integers_;
    for (const std::string& value : ValuesOf(parts)) rest.erase(value);
    return num_products_ > 0
               ? 1 - products_.Sum(plan::NeededValues(model_, rest).operators) / num_products_
               : 0;
  }

  void Mend(const OutputNoise& before) {
    integers_ = IntegerValues(resolved_);
    num_products_ = products_.Sum(plan::NeededValues(model_, integers_).operators);
    std::set<size_t> tried, left;
    OutputNoise noise = before;
    OutputNoise measured = before;
    for (;;) {
      // The sum of the single noises says which parts to leave, and a measurement if it is right.
      const size_t num_before = left.size();
      while (const std::optional<size_t> next = Next(noise, tried)) {
        tried.insert(*next);
        left.insert(*next);
        const double share = ShareOf(left);
        if (share > resolved_.plan.config.guard_share) {
          left.erase(*next);
          report_.has_reached_bound = true;
          continue;
        }
        report_.left_share = share;
        for (size_t k = 0; k < noise.size(); ++k) {
          noise[k] = std::max(0.0, noise[k] - parts_[*next].noise[k]);
        }
      }
      if (left.size() == num_before) break;
      std::set<std::string> values = ValuesOf(left);
      values.merge(IdleValues(model_, integers_, values));
      noise = measured = MeasureAll(values);
    }
    const double after_db = ToDb(measured[Worst(measured)]);
    if (after_db < report_.before_db + kLeastGainDb) {
      report_.left_share = 0;
      report_.note = report_.has_reached_bound
                         ? "no activations within guard_share would mend it"
                         : "no few activations are to blame, so that all stay integers";
      return;
    }
    report_.after_db = after_db;
    Leave(left);
  }

  void Leave(const std::set<size_t>& left_parts) {
    const std::vector<std::string> outputs = probe_->OutputNames();
    std::map<std::string, std::string> reasons;
    for (const size_t i : left_parts) {
      const Part& part = parts_[i];
      const size_t k = Worst(part.noise);
      const std::string who =
          part.size() == 1
              ? "its rounding alone"
              : fmt::format("rounding it and its neighbours, {} in all, alone", part.size());
      for (const std::string& value : ValuesOf({i})) {
        reasons[value] = fmt::format("{} brings the error of output '{}' to {:.1f} dB", who,
                                     outputs[k], ToDb(part.noise[k]));
      }
    }
    report_.num_left = LeaveFloat(resolved_, model_, reasons, "guard");
  }

  plan::ResolvedPlan& resolved_;
  const graph::Model& model_;
  const GuardOptions& options_;
  const CalibrationTable& table_;
  Products products_;
  double wanted_, aim_;  // the noise that is allowed, and that after mending
  std::vector<RoundedGroup> groups_;
  std::vector<size_t> rows_;        // of all groups, one after the other
  double num_elements_ = 0;         // elements of all rows for one sample
  std::set<std::string> integers_;  // the integer activations of the plan
  double num_products_ = 0;         // their products
  std::optional<NoiseProbe> probe_;
  size_t search_step_ = 1;   // one of so many samples is used to look for activations
  std::vector<Part> parts_;  // that may matter, the loudest of one size first
  size_t num_measured_ = 0;
  plan::GuardReport report_;
};

}  // namespace

void GuardActivations(plan::ResolvedPlan& resolved, const graph::Model& model,
                      const CalibrationTable& table, const GuardOptions& options) {
  if (!resolved.plan.config.guard_db) return;
  if (plan::ResolvePlacement(resolved.plan.config) != plan::Placement::kQdq) {
    resolved.guard.emplace().note = "it is for placement qdq only";
    return;
  }
  Guard guard(resolved, model, table, options);
  guard.Run();
  resolved.guard = guard.TakeReport();
}

}  // namespace bitpress::calibrate
