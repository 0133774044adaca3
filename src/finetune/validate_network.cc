#include "finetune/validate_network.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace bitpress::finetune {
namespace {

// A run that can be compared.
struct ComparedRun {
  const OutputErrors* before;
  const OutputErrors* after;
};
using Runs = std::vector<ComparedRun>;

// A gain and its standard error, in dB.
struct Estimate {
  double gain_db = 0;
  double uncertainty_db = 0;
};

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Returns the sum of squared distances from the mean.
double Spread(std::span<const double> values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares;
}

double Gain(double error_before, double error_after) {
  return error_after > 0 ? 10 * std::log10(error_before / error_after) : 0;
}

// Returns the gain of each output in all runs but one; none is left out for runs.size().
std::vector<double> GainsOf(const Runs& runs, size_t left_out) {
  std::vector<double> gains;
  for (size_t output = 0; output < runs[0].before->size(); ++output) {
    double sum_before = 0;
    double sum_after = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (i == left_out) continue;
      sum_before += (*runs[i].before)[output];
      sum_after += (*runs[i].after)[output];
    }
    gains.push_back(Gain(sum_before, sum_after));
  }
  return gains;
}

// How a run's outputs lost values (base/output_error.h).
enum class RunLoss { kNone, kBefore, kByLearning };

RunLoss LossOf(const OutputErrors& before, const OutputErrors& after) {
  bool has_lost = false;
  for (size_t output = 0; output < before.size(); ++output) {
    if (std::isinf(after[output]) && !std::isinf(before[output])) return RunLoss::kByLearning;
    has_lost = has_lost || std::isinf(before[output]);
  }
  return has_lost ? RunLoss::kBefore : RunLoss::kNone;
}

// One run alone does not show how much runs differ.
constexpr double kUncertaintyOfOneDb = 1;

// Returns the gain in the errors of all runs together. Its uncertainty is that of the jackknife:
// how much it depends on single runs.
Estimate GainOfAll(const Runs& runs, double gain_db, double least_uncertainty_db) {
  if (runs.size() == 1) return {gain_db, std::max(kUncertaintyOfOneDb, least_uncertainty_db)};
  std::vector<double> without;
  for (size_t i = 0; i < runs.size(); ++i) without.push_back(Mean(GainsOf(runs, i)));
  const auto count = static_cast<double>(runs.size());
  return {gain_db,
          std::max(std::sqrt((count - 1) / count * Spread(without)), least_uncertainty_db)};
}

// Returns the mean of the runs' own gains.
Estimate GainOfEach(const Runs& runs, double least_uncertainty_db) {
  constexpr double kMostDb = 20;  // one run that becomes nearly exact is no proof
  std::vector<double> gains;
  for (const ComparedRun& run : runs) {
    std::vector<double> of_outputs;
    for (size_t output = 0; output < run.before->size(); ++output) {
      of_outputs.push_back(
          std::clamp(Gain((*run.before)[output], (*run.after)[output]), -kMostDb, kMostDb));
    }
    gains.push_back(Mean(of_outputs));
  }
  if (runs.size() == 1) return {gains[0], std::max(kUncertaintyOfOneDb, least_uncertainty_db)};
  const auto count = static_cast<double>(runs.size());
  return {Mean(gains),
          std::max(std::sqrt(Spread(gains) / (count * (count - 1))), least_uncertainty_db)};
}

// Returns whether a gain is larger than its standard error. Layers were validated before, so that
// this asks only whether their gains add up. Two or three runs estimate the error badly.
bool IsClear(const Estimate& estimate, size_t num_runs) {
  const auto count = static_cast<double>(num_runs);
  const double widened = num_runs == 2 || num_runs == 3 ? 1.5 * (count + 1) / (count - 1) : 1;
  return estimate.gain_db > widened * estimate.uncertainty_db;
}

// Returns whether one of both gains is clear and the other one does not contradict it. The gain of
// all runs together may be that of a few loud ones, which the next samples do not have; that of
// single runs may be lost in one loud run. Four runs are the least that can agree.
bool IsClearInBoth(const Estimate& all, const Estimate& each, size_t num_runs) {
  // In 360 trials on 24 networks, these shares refused all losses of more than 0.4 dB and no gain
  // of more than 1.2 dB.
  constexpr double kLeastAgreement = 0.35;
  constexpr double kDistance = 2;
  constexpr size_t kLeastAgreeing = 4;
  const bool each_agrees = each.gain_db > kLeastAgreement * each.uncertainty_db;
  if (IsClear(all, num_runs) && each_agrees) return true;
  const bool all_agree = all.gain_db > kLeastAgreement * all.uncertainty_db;
  return num_runs >= kLeastAgreeing &&
         each.gain_db > (all_agree ? 1 : kDistance) * each.uncertainty_db;
}

}  // namespace

NetworkValidation ValidateNetwork(std::span<const OutputErrors> before,
                                  std::span<const OutputErrors> after,
                                  double least_uncertainty_db) {
  // A loss of one output up to this is taken where the others gain.
  constexpr double kMostLossDb = 0.25;
  NetworkValidation validation;
  Runs runs;
  for (size_t run = 0; run < std::min(before.size(), after.size()); ++run) {
    const size_t num_outputs = before[run].size();
    const bool is_like_others = runs.empty() || runs[0].before->size() == num_outputs;
    if (num_outputs == 0 || after[run].size() != num_outputs || !is_like_others) continue;
    const RunLoss loss = LossOf(before[run], after[run]);
    if (loss == RunLoss::kByLearning) ++validation.num_lost_runs;
    if (loss == RunLoss::kNone) runs.push_back({&before[run], &after[run]});
  }
  validation.num_runs = runs.size();
  if (runs.empty()) return validation;
  const std::vector<double> gains = GainsOf(runs, runs.size());
  validation.gain_db = Mean(gains);
  validation.least_gain_db = std::ranges::min(gains);
  const Estimate all = GainOfAll(runs, validation.gain_db, least_uncertainty_db);
  const Estimate each = GainOfEach(runs, least_uncertainty_db);
  const bool is_clear = IsClearInBoth(all, each, runs.size());
  validation.uncertainty_db = all.uncertainty_db;
  validation.run_gain_db = each.gain_db;
  validation.run_uncertainty_db = each.uncertainty_db;
  validation.is_better = validation.num_lost_runs == 0 && validation.gain_db > 0 && is_clear &&
                         validation.least_gain_db >= -kMostLossDb;
  return validation;
}

}  // namespace bitpress::finetune
