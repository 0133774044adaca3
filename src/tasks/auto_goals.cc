#include "tasks/auto_goals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "deploy/speed.h"
#include "search/goals.h"

namespace bitpress::tasks {
namespace {

constexpr double kNearlyAsLarge = 1.05;  // of two files
constexpr std::string_view kLimitExamples = "bytes<=3MB, bytes<=50%, time<=0.8 and loss<=1%";

// Reads "0.8" or "80%".
double ParseShare(std::string_view text) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  return ParseDouble(Trim(text), "the bound") / (is_percent ? 100 : 1);
}

void SetOnce(std::optional<double>& limit, double value, std::string_view part) {
  if (limit) Fail(ErrorCode::kInvalidArgument, "'{}': this limit is given twice", part);
  limit = value;
}

double OrInfinity(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::infinity());
}

std::optional<double> NoiseDb(const TrialFigures& figures) {
  return figures.sqnr_db ? std::optional(-*figures.sqnr_db) : std::nullopt;
}

// Returns how many times its limits of size and time a model takes at the worst.
double Excess(const TrialFigures& figures, const Limits& limits) {
  double excess = 0;
  if (limits.bytes) excess = std::max(excess, figures.bytes / *limits.bytes);
  if (limits.byte_share) excess = std::max(excess, figures.byte_share / *limits.byte_share);
  if (limits.time && figures.time) excess = std::max(excess, *figures.time / *limits.time);
  return excess;
}

bool KeepsLoss(const TrialFigures& figures, const Limits& limits) {
  return !limits.loss || !figures.loss || *figures.loss <= *limits.loss;
}

// Returns whether `a` is to be chosen rather than `b`. It is an order of the trials: among three of
// them none is better than one that is better than it.
bool IsBetter(const TrialFigures& a, const TrialFigures& b, const Goals& goals) {
  const bool keeps = a.Keeps(goals.limits);
  if (keeps != b.Keeps(goals.limits)) return keeps;
  const double loss_a = OrInfinity(a.loss), loss_b = OrInfinity(b.loss);
  if (!keeps) {
    const bool keeps_loss = KeepsLoss(a, goals.limits);
    if (keeps_loss != KeepsLoss(b, goals.limits)) return keeps_loss;
    if (!keeps_loss) return std::tuple(loss_a, a.bytes) < std::tuple(loss_b, b.bytes);
    return Excess(a, goals.limits) < Excess(b, goals.limits);
  }
  switch (goals.want) {
    case Want::kBalanced:
    case Want::kSmaller:
      return std::tuple(a.bytes, loss_a) < std::tuple(b.bytes, loss_b);
    case Want::kFaster:
      return std::tuple(OrInfinity(a.time), a.bytes) < std::tuple(OrInfinity(b.time), b.bytes);
    case Want::kClosest:
      // A measure that counts is often the same for two files, one of which is far closer.
      return std::tuple(loss_a, OrInfinity(NoiseDb(a)), a.bytes) <
             std::tuple(loss_b, OrInfinity(NoiseDb(b)), b.bytes);
    case Want::kFirst:
      return false;
  }
  return false;
}

// Returns the index of the fastest of the trials that keep the limits and are at most a twentieth
// larger than the smallest one, if it is clearly faster than that: times differ from run to run.
// Two files that are nearly as large as a third need not be so beside each other, so all are
// compared with one.
size_t FasterThan(size_t smallest, std::span<const TrialFigures> trials, const Goals& goals) {
  size_t best = smallest;
  for (size_t i = 0; i < trials.size(); ++i) {
    const bool fits = trials[i].Keeps(goals.limits) &&
                      trials[i].bytes <= kNearlyAsLarge * trials[smallest].bytes &&
                      IsClearlyFaster(trials[i], trials[smallest]);
    if (fits && *trials[i].time < OrInfinity(trials[best].time)) best = i;
  }
  return best;
}

}  // namespace

Limits ParseLimits(std::string_view text) {
  Limits limits;
  for (const std::string& part : Split(text, ',')) {
    const size_t at = part.find("<=");
    const std::string name(Trim(std::string_view(part).substr(0, at)));
    if (at == std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, "'{}' is no bound; write {}", part, kLimitExamples);
    }
    const std::string_view bound = Trim(std::string_view(part).substr(at + 2));
    double value = 0;
    if (name == "bytes") {
      const bool is_share = bound.ends_with('%');
      value = is_share ? ParseShare(bound) : search::ParseBytes(bound);
      SetOnce(is_share ? limits.byte_share : limits.bytes, value, part);
    } else if (name == "time" || name == "loss") {
      value = ParseShare(bound);
      SetOnce(name == "time" ? limits.time : limits.loss, value, part);
    } else {
      Fail(ErrorCode::kInvalidArgument, "there is no limit '{}'{}; write {}", name,
           DidYouMean(name, std::vector<std::string>{"bytes", "time", "loss"}), kLimitExamples);
    }
    if (!(value > 0 || (name == "loss" && value == 0)) || !std::isfinite(value)) {
      Fail(ErrorCode::kInvalidArgument, "'{}': the bound must be above 0", part);
    }
  }
  return limits;
}

std::string Limits::Text() const {
  std::vector<std::string> parts;
  if (bytes) parts.push_back(HumanBytes(static_cast<uint64_t>(*bytes)));
  if (byte_share) parts.push_back(fmt::format("{:g} % of the float file", 100 * *byte_share));
  if (time) parts.push_back(fmt::format("{:g} of the float model's time", *time));
  if (loss) parts.push_back(fmt::format("a loss of {:g} %", 100 * *loss));
  return parts.empty() ? "no limits" : "at most " + Join(parts, ", ");
}

Goals GoalsOf(Want want, Limits limits, double tolerable_loss) {
  if (!limits.loss) limits.loss = tolerable_loss;
  const bool is_quick = want == Want::kBalanced || want == Want::kFaster;
  // Rounds of one measurement differ by that much.
  if (is_quick && !limits.time) limits.time = deploy::kSlower;
  // A tiny network may grow by quantizing it, and then it had better stay as it is.
  if (want != Want::kFirst && !limits.bytes && !limits.byte_share) limits.byte_share = 1;
  return {want, limits};
}

bool TrialFigures::Keeps(const Limits& limits) const {
  return KeepsLoss(*this, limits) && Excess(*this, limits) <= 1;
}

bool IsClearlyFaster(const TrialFigures& a, const TrialFigures& b) {
  constexpr double kShare = 0.9;  // times differ from run to run
  return a.time && b.time && *a.time < kShare * *b.time;
}

bool IsClearlySmaller(const TrialFigures& a, const TrialFigures& b) {
  return kNearlyAsLarge * a.bytes < b.bytes;
}

std::string LimitsMissed(const TrialFigures& figures, const Limits& limits) {
  Limits bytes, time, loss;
  bytes.bytes = limits.bytes;
  bytes.byte_share = limits.byte_share;
  time.time = limits.time;
  loss.loss = limits.loss;
  std::vector<std::string> missed;
  if (!figures.Keeps(bytes)) missed.emplace_back("bytes");
  if (!figures.Keeps(time)) missed.emplace_back("time");
  if (!figures.Keeps(loss)) missed.emplace_back("loss");
  return Join(missed, ", ");
}

size_t BestOf(std::span<const TrialFigures> trials, const Goals& goals) {
  BITPRESS_DCHECK(!trials.empty());
  const auto best = std::ranges::min_element(
      trials, [&](const auto& a, const auto& b) { return IsBetter(a, b, goals); });
  const auto index = static_cast<size_t>(best - trials.begin());
  const bool is_kept = best->Keeps(goals.limits);
  return goals.want == Want::kBalanced && is_kept ? FasterThan(index, trials, goals) : index;
}

}  // namespace bitpress::tasks
