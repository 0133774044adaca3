// The check by which the guard leaves fewer activations float than decibels ask for: whether a
// model with rounded activations does its task as well as the float one. How well, in boxes,
// characters or classes, is for the caller to measure, because this room knows no task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/measured_loss.h"
#include "base/tensor.h"
#include "calibrate/noise_probe.h"
#include "data/source.h"

namespace bitpress::calibrate {

// Measures the loss of some runs against those of the float model.
class TaskLossMeter {
 public:
  virtual ~TaskLossMeter() = default;
  // Adds a run with all outputs of the model, in its order. Throws Error if they do not fit.
  virtual void Add(const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted,
                   const std::vector<Tensor>& found) = 0;
  // Returns the loss of all runs; nothing if the outputs are of no task.
  virtual std::optional<MeasuredLoss> Result() const = 0;
  // Returns the reason. REQUIRES: there is no result.
  virtual std::string WhyNone() const = 0;
};
using TaskMeterMaker = std::function<std::unique_ptr<TaskLossMeter>()>;

// The samples of a check are those of the probe and some more, which the probe gets.
class TaskCheck {
 public:
  // Runs the float model on `most_samples` at most, until they hold enough to know a loss of
  // `most_loss`, a share. `maker` may be empty, and `probe` must outlive the check. REQUIRES: the
  // probe has the samples of AddSpreadSamples, and still its float model.
  TaskCheck(NoiseProbe& probe, data::Source& source, const TaskMeterMaker& maker, double most_loss,
            size_t most_samples);

  // Returns whether the task can decide: it is known, and there are enough items to know.
  bool CanDecide() const { return can_decide_; }
  // Returns why it cannot, or "" if it was not asked to.
  const std::string& why_not() const { return why_not_; }
  // Returns the number of samples that it measures with, and the items in them.
  size_t num_samples() const { return samples_.size(); }
  const MeasuredLoss& of_float() const { return of_float_; }

  // Returns the loss with the rows rounded for which is_rounded[i], as NoiseProbe::Measure has
  // them. Stops early where it is more than the most in any case. If the outputs cannot be
  // compared, because their shapes depend on the rounding, the task cannot decide from then on.
  // REQUIRES: CanDecide().
  MeasuredLoss Measure(const std::vector<bool>& is_rounded);
  bool IsKept(const MeasuredLoss& loss) const { return loss.loss <= most_loss_; }

 private:
  void RunFloats(data::Source& source, size_t most_samples);
  bool HasEnough() const;
  void AddFloat(size_t sample, TaskLossMeter& meter);
  MeasuredLoss MeasureSamples(const std::vector<bool>& is_rounded);

  NoiseProbe& probe_;
  TaskMeterMaker maker_;
  double most_loss_;
  std::vector<size_t> samples_;
  MeasuredLoss of_float_;
  bool can_decide_ = false;
  std::string why_not_;
};

}  // namespace bitpress::calibrate
