// The wants of a user of a quantized model, and the choice among models that were tried. Plain
// data; all functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace bitpress::tasks {

// The measure that the chosen model is the best in. All keep the limits first.
enum class Want : uint8_t {
  // The smallest file that is not slower than the float model, or a clearly faster one that is at
  // most 5 % larger.
  kBalanced,
  kSmaller,  // the smallest file, however long it takes
  kFaster,   // the shortest time
  kClosest,  // the least loss, and of equal ones the closest outputs
  kFirst,    // the first in their order, as `autotune` takes it
};
inline constexpr std::array<std::pair<std::string_view, Want>, 5> kWantWords{
    {{"balanced", Want::kBalanced},
     {"smaller", Want::kSmaller},
     {"faster", Want::kFaster},
     {"closest", Want::kClosest},
     {"first", Want::kFirst}}};
constexpr Words<Want> FieldWords(const Want*) { return kWantWords; }

// Limits of a quantized model. Nothing: there is no limit.
struct Limits {
  std::optional<double> bytes;
  std::optional<double> byte_share;  // of the float file
  std::optional<double> time;        // over that of the float model
  std::optional<double> loss;        // as AutoOptions::tolerable_loss
  // Returns the limits in words: "at most 3.00 MB, 1.05 of the float model's time".
  std::string Text() const;
};

// Reads "bytes<=3MB,time<=0.8,loss<=1%", where bytes may be a share of the float file ("50%").
// Throws Error(kInvalidArgument) with what may be written.
Limits ParseLimits(std::string_view text);

struct Goals {
  Want want = Want::kBalanced;
  Limits limits;
};
// Returns the goals of a preference: limits that the user did not set follow from it.
// `tolerable_loss` is the limit of the loss if `limits` has none.
Goals GoalsOf(Want want, Limits limits, double tolerable_loss);

// The figures of one model that was tried.
struct TrialFigures {
  std::optional<double> loss, time;  // nothing: not measured
  double bytes = 0;
  double byte_share = 0;
  std::optional<double> sqnr_db = {};  // of the outputs

  // Returns whether the model keeps the limits. What was not measured keeps them.
  bool Keeps(const Limits& limits) const;
};

// Returns whether `a` was faster than `b` beyond what times differ in from run to run.
bool IsClearlyFaster(const TrialFigures& a, const TrialFigures& b);
// Returns whether `a` is more than a twentieth smaller than `b`.
bool IsClearlySmaller(const TrialFigures& a, const TrialFigures& b);
// Returns the limits that a trial does not keep, as ParseLimits names them: "time, loss".
std::string LimitsMissed(const TrialFigures& figures, const Limits& limits);

// Returns the index of the trial to choose; of equal ones it is the first. What was not measured
// counts as the worst. REQUIRES: there is a trial.
size_t BestOf(std::span<const TrialFigures> trials, const Goals& goals);

}  // namespace bitpress::tasks
