#include "calibrate/task_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::calibrate {
namespace {

// Samples that are kept for the task alone take so many bytes at most, their outputs included.
constexpr uint64_t kMostBytes = uint64_t{512} << 20;
// Samples enough, if they hold many items.
constexpr size_t kGoodSamples = 64;
// The least samples of a measure that counts nothing.
constexpr size_t kLeastSamples = 8;
// So many of the items that are needed are good.
constexpr double kGoodItems = 4;
// A result takes time, and is asked for after so many samples.
constexpr size_t kAtOnce = 8;

uint64_t BytesOf(const std::vector<Tensor>& tensors) {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

}  // namespace

TaskCheck::TaskCheck(NoiseProbe& probe, data::Source& source, const TaskMeterMaker& maker,
                     double most_loss, size_t most_samples)
    : probe_(probe), maker_(maker), most_loss_(most_loss) {
  if (!maker_ || most_loss_ <= 0 || !probe.FetchesOutputs()) return;
  // A task that does not fit the model is no reason to quantize less.
  try {
    RunFloats(source, most_samples);
  } catch (const Error& error) {
    why_not_ = error.what();
    can_decide_ = false;
  }
}

void TaskCheck::AddFloat(size_t sample, TaskLossMeter& meter) {
  const std::vector<Tensor>& wanted = probe_.WantedOutputs(sample);
  meter.Add(probe_.InputsOf(sample), wanted, wanted);
  samples_.push_back(sample);
}

void TaskCheck::RunFloats(data::Source& source, size_t most_samples) {
  const std::unique_ptr<TaskLossMeter> meter = maker_();
  const size_t num_spread = probe_.num_samples();
  uint64_t num_bytes = 0;
  const auto update = [&] {
    const std::optional<MeasuredLoss> result = meter->Result();
    of_float_ = result.value_or(MeasuredLoss());
    return result.has_value();
  };
  for (size_t i = 0; i < std::min(num_spread, most_samples); ++i) AddFloat(i, *meter);
  bool is_known = update();
  const auto takes_more = [&] {
    return is_known && samples_.size() < most_samples && num_bytes < kMostBytes && !HasEnough();
  };
  if (takes_more()) {
    EachOtherSample(probe_, source, num_spread, [&](const std::vector<Tensor>& inputs) {
      if (!takes_more()) return;
      probe_.AddSample(inputs);
      AddFloat(probe_.num_samples() - 1, *meter);
      num_bytes += BytesOf(inputs) + BytesOf(probe_.WantedOutputs(probe_.num_samples() - 1));
      if (samples_.size() % kAtOnce == 0) is_known = update();
    });
    is_known = update();
  }
  if (!is_known) {
    why_not_ = meter->WhyNone();
    return;
  }
  // A float model that loses against itself, such as one of NaN, shows nothing.
  if (!(std::abs(of_float_.loss) <= most_loss_ / 2)) {
    why_not_ = fmt::format("the float model loses {:.2g} % against itself ({})",
                           100 * of_float_.loss, of_float_.measure);
    return;
  }
  const double least = of_float_.items.empty() ? 0 : 1 / most_loss_;
  can_decide_ = samples_.size() >= kLeastSamples || !of_float_.items.empty();
  can_decide_ = can_decide_ && static_cast<double>(of_float_.num_items) >= least;
  if (can_decide_) return;
  why_not_ = of_float_.items.empty()
                 ? fmt::format("{} are too few to measure the task by {}",
                               WithNoun(samples_.size(), "sample"), of_float_.measure)
                 : fmt::format(
                       "{} {} in {} are too few to know a loss of {:g} % ({}): {:.0f} are "
                       "enough",
                       of_float_.num_items, of_float_.items, WithNoun(samples_.size(), "sample"),
                       100 * most_loss_, of_float_.measure, std::ceil(least));
}

bool TaskCheck::HasEnough() const {
  return samples_.size() >= kGoodSamples &&
         (of_float_.items.empty() ||
          static_cast<double>(of_float_.num_items) >= kGoodItems / most_loss_);
}

MeasuredLoss TaskCheck::Measure(const std::vector<bool>& is_rounded) {
  try {
    return MeasureSamples(is_rounded);
  } catch (const Error& error) {
    why_not_ = error.what();
    can_decide_ = false;
    return {.loss = 1, .measure = of_float_.measure};
  }
}

MeasuredLoss TaskCheck::MeasureSamples(const std::vector<bool>& is_rounded) {
  const std::unique_ptr<TaskLossMeter> meter = maker_();
  std::optional<MeasuredLoss> result;
  for (size_t i = 0; i < samples_.size(); ++i) {
    meter->Add(probe_.InputsOf(samples_[i]), probe_.WantedOutputs(samples_[i]),
               probe_.RoundedOutputs(is_rounded, samples_[i]));
    const bool is_last = i + 1 == samples_.size();
    if (!is_last && ((i + 1) % kAtOnce != 0 || of_float_.items.empty())) continue;
    result = meter->Result();
    // Items that are lost stay lost.
    const bool has_lost = result && result->loss * static_cast<double>(result->num_items) >
                                        most_loss_ * static_cast<double>(of_float_.num_items);
    if (has_lost) break;
  }
  return result.value_or(MeasuredLoss{.loss = 1, .measure = of_float_.measure});
}

}  // namespace bitpress::calibrate
