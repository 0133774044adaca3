// A plan with everything that calibration and fine-tuning add to it. calibrate/resolve_plan.h makes
// one, finetune/ learns into it, and emit/ reads nothing else. Plain data.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "formats/qparams.h"
#include "plan/channel_codes.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// A value in one format. A value that its readers take in two formats has two scales.
struct ScaleKey {
  std::string value;
  std::string format;
  auto operator<=>(const ScaleKey&) const = default;
};
inline ScaleKey ScaleKeyOf(const TensorPlan& row) { return {row.value, row.format}; }

// Returns the value that a row's scale belongs to: the one that the row shares it with, or its own.
// REQUIRES: the row is of integers.
inline const std::string& ScaleRootOf(const TensorPlan& row) {
  return row.integer->shares.empty() ? row.value : row.integer->shares;
}

// Scales and zero points of activations.
using ScaleTable = std::map<ScaleKey, formats::QParams>;
// Scales of weights that do not follow from their range method: of integers in the order of
// weights::IntegerWeight::scale_dims, of scaled floats the one scale.
using WeightScaleTable = std::map<ScaleKey, std::vector<formats::QParams>>;

// An int8 weight that became uint8 (integer_kernels=safe).
struct UnsignedWeight {
  std::string value;
  double saved_db = 0;  // growth of the noise of its layer's outputs that this avoids
};
constexpr auto FieldsOf(const UnsignedWeight*) {
  return std::tuple(Field{"value", &UnsignedWeight::value},
                    Field{"saved_db", &UnsignedWeight::saved_db});
}

// The results of the guard (calibrate/guard.h). Distances are in dB between an output
// and the error that rounding activations brings into it, for the worst output. They are below 0
// where rounding makes NaN or infinity of numbers.
struct GuardReport {
  static constexpr double kNoNoiseDb = 200;
  size_t num_samples = 0;
  size_t num_runs = 0;
  std::string range_method;
  double first_db = 0;  // the distance before it gave another range method
  std::string worst_output;
  double before_db = 0;
  double after_db = 0;
  std::optional<double> weights_db;
  double left_share = 0;
  bool has_reached_bound = false;  // activations stayed quantized because of guard_share
  size_t num_left = 0;             // ResolvedPlan::left_float has them
  // The measure of the task by which it decided, "" if decibels decided alone; the loss, a share,
  // with all activations rounded and with those that are left; and what was counted in it.
  std::string task_measure;
  double task_loss_before = 0;
  double task_loss = 0;
  std::string task_items;
  uint64_t num_task_items = 0;
  size_t num_task_samples = 0;
  std::string why_no_task;  // "": it decided, or was not asked
  std::string note;

  // Returns whether rounding changed no output: it does not reach them, or they do not vary.
  bool has_no_noise() const { return before_db >= kNoNoiseDb; }
};
constexpr auto FieldsOf(const GuardReport*) {
  using Report = GuardReport;
  return std::tuple(
      Field{"num_samples", &Report::num_samples, "Samples that it measured with."},
      Field{"num_runs", &Report::num_runs, "How often it ran the model for a sample."},
      Field{"weights_db", &Report::weights_db,
            "SQNR in dB of the worst output with quantized weights alone. None if it did not have "
            "to measure that."},
      Field{"range_method", &Report::range_method,
            "The range method that it gave activations instead of that of the configuration. '' if "
            "it gave none."},
      Field{"worst_output", &Report::worst_output, "The output that suffered most before."},
      Field{"before_db", &Report::before_db,
            "SQNR in dB of that output with all activations of the plan quantized."},
      Field{"after_db", &Report::after_db,
            "The same with those that are left. Equal if none was left float."},
      Field{"num_left", &Report::num_left, "Activations that it left float."},
      Field{"left_share", &Report::left_share,
            "Share of the products of integers that became floats, 0 to 1."},
      Field{"task_measure", &Report::task_measure,
            "The measure of the network's task that decided besides (guard_loss). '' if decibels "
            "decided alone."},
      Field{"task_loss_before", &Report::task_loss_before,
            "The loss by it with all activations of the plan quantized, as a share."},
      Field{"task_loss", &Report::task_loss, "The same with those that are left."},
      Field{"task_items", &Report::task_items,
            "What it counts, such as boxes. '': it counts nothing."},
      Field{"num_task_items", &Report::num_task_items},
      Field{"num_task_samples", &Report::num_task_samples},
      Field{"why_no_task", &Report::why_no_task,
            "Why the task did not decide. '' if it did, or if no activation fails by decibels."},
      Field{"note", &Report::note,
            "Why nothing was measured, or nothing was changed although that was asked for. '' "
            "otherwise."});
}

struct ResolvedPlan {
  QuantPlan plan = {};
  // Activations with integer formats. One that is missing stays float, and so do the biases that
  // are added to its products.
  ScaleTable scales = {};
  // The codes in the channels of those activations that pair-safe weights are multiplied with.
  ChannelCodesTable channels = {};
  WeightScaleTable weight_scales = {};
  // Integer activations that stay float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float = {};
  std::vector<UnsignedWeight> unsigned_weights = {};  // those that save most come first
  std::optional<GuardReport> guard = {};              // nothing: the configuration has none
};

}  // namespace bitpress::plan
