#include "tasks/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/messages.h"
#include "base/paths.h"
#include "base/text.h"
#include "formats/format_spec.h"
#include "kernels/block_products.h"

namespace bitpress::tasks {
namespace {

using deploy::Closeness;
using deploy::OutputCloseness;
using deploy::TargetReport;

bool IsAnythingQuantized(const QuantizeReport& report) {
  const auto is_quantized = [](const auto& row) { return row.is_quantized(); };
  return std::ranges::any_of(report.plan.tensors, is_quantized) ||
         std::ranges::any_of(report.plan.caches, is_quantized);
}

bool HasQuantized(const QuantizeReport& report, plan::Role role) {
  return std::ranges::any_of(report.plan.tensors, [role](const plan::TensorPlan& row) {
    return row.role == role && row.is_quantized();
  });
}

// Returns whether activations are rounded to floats one by one beside convolutions of ONNX Runtime,
// which optimize makes faster.
bool HasRoundedConvolutions(const QuantizeReport& report) {
  const emit::NativeOperators& native = report.transform.native;
  if (native.num_nodes > 0 && native.omissions.empty()) return false;
  const auto is_rounded = [](const plan::TensorPlan& row) {
    if (row.role != plan::Role::kActivation || !row.is_quantized() || row.integer) return false;
    const bool is_convolved = std::ranges::any_of(
        row.uses, [](const plan::TensorUse& use) { return use.op_type == "Conv"; });
    return is_convolved && !formats::FindFormat(row.format).is_blocked();
  };
  return std::ranges::any_of(report.plan.tensors, is_rounded);
}

std::string SizeLine(const QuantizeReport& report) {
  const double share = static_cast<double>(report.output_bytes) /
                       static_cast<double>(std::max<uint64_t>(1, report.input_bytes));
  std::string line =
      fmt::format("{}: {}, {:.0f} % of the given model's {}", PathText(report.output),
                  HumanBytes(report.output_bytes), 100 * share, HumanBytes(report.input_bytes));
  if (report.target && report.target->is_run) {
    line += fmt::format("; {} loads and runs it", report.target->runtime);
    if (report.target->num_decoded > 0) line += " " + DecodedText(*report.target);
  }
  return line;
}

std::string ClosenessText(const QuantizeReport& report) {
  if (!report.target || !report.target->is_run) return "closeness: not measured";
  const TargetReport& target = *report.target;
  if (target.is_made_up || !target.closeness) {
    return fmt::format("closeness: not measured, for there are no samples ({})",
                       OptionName("data"));
  }
  if (!target.closeness->why_not.empty()) {
    return fmt::format("closeness: not measured: {}", target.closeness->why_not);
  }
  if (target.closeness->outputs.empty()) return "closeness: not measured, for no output is float";
  const OutputCloseness worst = *target.closeness->worst();
  const std::string runs = WithNoun(target.closeness->num_runs, "sample");
  if (worst.num_lost > 0) return fmt::format("closeness: NaN or infinity in '{}'", worst.name);
  if (std::isinf(worst.sqnr_db)) return fmt::format("closeness: the same on {}", runs);
  return fmt::format("closeness: {:.1f} dB at output '{}' on {}", worst.sqnr_db, worst.name, runs);
}

std::string Milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f} ms", ms, ms < 1 ? 3 : ms < 10 ? 2 : 0);
}

std::string TimeText(const QuantizeReport& report) {
  if (!report.target || !report.target->speed) return "time: not measured";
  const deploy::Speed& speed = *report.target->speed;
  const std::string elsewhere =
      report.target_runtime.empty() ? "" : ", which says nothing of " + report.target_runtime;
  return fmt::format("time: {:.2f} of the given model's, {} instead of {} on this machine{}",
                     speed.ratio, Milliseconds(speed.seconds), Milliseconds(speed.given_seconds),
                     elsewhere);
}

// Returns the bytes of constants that are quantized, as a share of all constants' bytes.
double QuantizedShare(const QuantizeReport& report) {
  uint64_t num_bytes = report.prepared_parts.codes;  // of a model that was quantized in part
  for (const auto& weight : report.transform.weights) num_bytes += weight->stored_bytes;
  if (report.rewritten.narrowed) num_bytes += report.rewritten.narrowed->constants.num_bytes;
  const uint64_t all = std::max<uint64_t>(1, report.output_parts.constants);
  return std::min(1.0, static_cast<double>(num_bytes) / static_cast<double>(all));
}

std::string SharesLine(const QuantizeReport& report) {
  std::string line;
  if (report.target && report.target->work && report.target->work->all() > 0) {
    const deploy::WorkShares& work = *report.target->work;
    std::vector<std::string> words;
    for (const auto& [count, where] :
         {std::pair(work.integers, "on integers"), std::pair(work.codes, "from codes of weights"),
          std::pair(work.floats, "in float")}) {
      if (count / work.all() >= 0.005)
        words.push_back(fmt::format("{:.0f} % {}", 100 * count / work.all(), where));
    }
    line = fmt::format("products: {}; ", Join(words, ", "));
  }
  return line + fmt::format("constants: {:.0f} % of their bytes are quantized",
                            100 * QuantizedShare(report));
}

// Says that nothing, or not all, was left to quantize.
void WarnOfNothing(const QuantizeReport& report, std::vector<Warning>& warnings) {
  const auto& narrowed = report.rewritten.narrowed;
  const bool is_narrowed =
      narrowed && narrowed->num_half_nodes + narrowed->constants.num_constants > 0;
  const bool is_changed = IsAnythingQuantized(report) || is_narrowed;
  if (!report.already_quantized.empty()) {
    warnings.push_back({is_changed ? "left_float" : "nothing_quantized",
                        fmt::format("{}the model is already quantized: {}; {}",
                                    is_changed ? "" : "nothing was quantized: ",
                                    CountAll(report.already_quantized),
                                    is_changed ? "these stay as they are, the rest was quantized"
                                               : "give the float model that it was made from")});
  } else if (!is_changed) {
    warnings.push_back(
        {"nothing_quantized", fmt::format("nothing was quantized: no operator reads a weight or an "
                                          "activation that '{}' quantizes; deploy the given model",
                                          report.plan.config.name)});
  }
}

void WarnOfCloseness(const Closeness& closeness, const std::set<std::string>& chosen_outputs,
                     std::vector<Warning>& warnings) {
  constexpr std::string_view kRemedies =
      "More bits, fine-tuning (finetune=adaquant) or a search (bitpress search) bring it closer";
  if (closeness.has_poor_samples()) {
    warnings.push_back(
        {"poor_samples",
         fmt::format("{}: ranges, learned weights and closeness hold for such inputs only; give "
                     "samples as the model meets them",
                     closeness.num_constant_runs == closeness.num_runs
                         ? "each sample is one number everywhere"
                         : fmt::format("the first {} samples are all the same",
                                       closeness.num_equal_runs + 1))});
  }
  for (const deploy::OtherShape& output : closeness.other_shapes) {
    warnings.push_back(
        {"far", fmt::format("output '{}' has another shape than the given model's in {} of {} runs",
                            output.name, output.num_runs, closeness.num_runs)});
  }
  if (closeness.outputs.empty()) return;
  const OutputCloseness worst = *closeness.worst();
  if (worst.num_lost > 0) {
    warnings.push_back(
        {"lost_values", fmt::format("output '{}' holds NaN or infinity where the given model gives "
                                    "numbers, in {} of {} values. {}",
                                    worst.name, worst.num_lost, worst.num_values, kRemedies)});
  } else if (closeness.is_far() && chosen_outputs.contains(worst.name)) {
    warnings.push_back(
        {"far",
         fmt::format("output '{}' is {:.1f} dB from that of the given model, which says little: "
                     "TopK or the like chooses its rows, and any rounding moves some. Measure what "
                     "it finds (bitpress evaluate with --task detection or another)",
                     worst.name, worst.sqnr_db)});
  } else if (closeness.is_far()) {
    warnings.push_back(
        {"far",
         fmt::format("output '{}' is far from that of the given model: {:.1f} dB, where such "
                     "formats should give {:.0f}. Measure what that costs (bitpress "
                     "evaluate). {}",
                     worst.name, worst.sqnr_db, closeness.wanted_db, kRemedies)});
  }
  for (const OutputCloseness& output : closeness.outputs) {
    if (output.varies) continue;
    warnings.push_back(
        {"poor_samples",
         fmt::format("output '{}' is the same for all samples, so that its closeness "
                     "says little: give samples in which it differs",
                     output.name)});
  }
}

void WarnOfRun(const QuantizeReport& report, std::vector<Warning>& warnings) {
  if (!report.why_not_checked.empty()) {
    warnings.push_back(
        {"not_checked", fmt::format("the model was not checked: {}", report.why_not_checked)});
  }
  if (!report.target) return;
  const TargetReport& target = *report.target;
  if (!target.is_loaded) {
    warnings.push_back({"not_run", fmt::format("{} DOES NOT LOAD it on this machine, nor the given "
                                               "model: {}",
                                               target.runtime, target.error)});
  } else if (!target.is_run) {
    warnings.push_back(
        {"not_run", fmt::format("{} loads it, but did not run it {}: {}", target.runtime,
                                target.is_made_up
                                    ? fmt::format("on a made-up sample (give {} to run a real one)",
                                                  OptionName("data"))
                                    : "on the first sample",
                                target.error)});
  }
  if (!target.checker_error.empty()) warnings.push_back({"rules", target.checker_error});
  if (target.processor.is_harmful(target.worst_db())) {
    const bool is_safe = std::ranges::any_of(report.plan.tensors, [](const plan::TensorPlan& row) {
      return row.integer && row.integer->is_pair_safe;
    });
    warnings.push_back({"processors", std::string(is_safe ? evaluate::kBeyondSamplesWarning
                                                          : evaluate::kHarmfulWarning)});
  }
}

void WarnOfTarget(const QuantizeReport& report, std::vector<Warning>& warnings) {
  for (const std::string& rule : report.transform.broken_rules)
    warnings.push_back({"target", rule});
}

// Says which pass of the preparation changes outputs by more than the rounding of floats.
void WarnOfPreparation(const QuantizeReport& report, std::vector<Warning>& warnings) {
  if (!report.changing_pass) return;
  const ChangingPass& changing = *report.changing_pass;
  const std::string change =
      fmt::format("output '{}' by more than the rounding of floats ({:.1f} dB)", changing.output,
                  changing.sqnr_db);
  warnings.push_back(
      {"preparation",
       changing.is_undone
           ? fmt::format("pass {} was undone, because it changes {}", changing.pass, change)
           : fmt::format("pass {} of the preparation changes {}; without the files of a plan or "
                         "a calibration, which name what it made, it is undone",
                         changing.pass, change)});
}

// Names the operators that compute in float between integers, where they are many: values are
// converted for them there and back.
std::string FloatsBetween(const deploy::TargetReport& target) {
  constexpr size_t kMany = 8;
  if (target.float_nodes.size() < kMany || target.integer_operators.empty()) return "";
  std::map<std::string, size_t> counts;
  for (const deploy::FloatNode& node : target.float_nodes) ++counts[node.op_type];
  const auto most =
      std::ranges::max_element(counts, {}, &std::pair<const std::string, size_t>::second);
  return fmt::format("{} operators compute in float between integers, {} of them {}; ",
                     target.float_nodes.size(), most->second, most->first);
}

// Says what to do where a FLOAT16 network is slower than the FLOAT one.
std::string RemedyOfHalf(const rewrite::NarrowReport& narrowed) {
  std::string text =
      "FLOAT16 pays in bytes, and where processors compute it, which most x86 ones do not; "
      "FP16_WEIGHTS has the same bytes and computes in float, INT8 and INT8_DYNAMIC compute faster";
  if (narrowed.num_clips_behind_convs > 1) {
    text += fmt::format("; exclude_op_types=Clip lets ONNX Runtime fuse {} with the Conv in front",
                        WithNoun(narrowed.num_clips_behind_convs, "Clip"));
  }
  return text;
}

void WarnOfSpeed(const QuantizeReport& report, std::vector<Warning>& warnings) {
  if (!report.target || !report.target->speed || !report.target->speed->is_slower()) return;
  if (!report.target_runtime.empty()) return;
  const bool reads_activations = HasQuantized(report, plan::Role::kActivation);
  const auto remedy = [&]() -> std::string {
    if (report.rewritten.narrowed) return RemedyOfHalf(*report.rewritten.narrowed);
    if (HasRoundedConvolutions(report)) {
      // Operators of ours keep conversions of layout around them.
      return std::string(report.transform.native.num_nodes > 0 ? "with target=portable, " : "") +
             "bitpress optimize writes a file for processors like this one, without the "
             "conversions of layout around quantizers, which take most of the difference; weights "
             "alone (activations=none) compute in float";
    }
    if (reads_activations) {
      return FloatsBetween(*report.target) +
             "quantize weights alone (activations=none), which computes in float, or compare "
             "presets (bitpress auto)";
    }
    if (report.transform.native.num_nodes > 0) {
      return "target=portable decodes the weights when the model is loaded, and computes in float "
             "then";
    }
    return "compare other presets (bitpress auto)";
  };
  warnings.push_back(
      {"slower", fmt::format("slower than the given model on this machine, {:.2f} of its time: {}",
                             report.target->speed->ratio, remedy())});
}

// Says why the quantized model takes more bytes than the float one.
void WarnOfGrowth(const QuantizeReport& report, std::vector<Warning>& warnings) {
  if (report.output_bytes <= report.input_bytes) return;
  const auto difference = [](uint64_t before, uint64_t after) {
    return static_cast<int64_t>(after) - static_cast<int64_t>(before);
  };
  const auto rest = [](uint64_t bytes, const graph::StoredParts& parts) {
    return bytes - std::min(bytes, parts.constants + parts.functions + parts.metadata);
  };
  const graph::StoredParts& before = report.input_parts;
  const graph::StoredParts& after = report.output_parts;
  std::vector<std::pair<int64_t, std::string>> parts = {
      {difference(before.functions, after.functions),
       "functions that decode weights or replace our library (portable=off: only the former)"},
      {difference(before.metadata, after.metadata), "metadata that say how it was made"},
      {difference(before.constants, report.prepared_parts.constants),
       "constants that the preparation computed"},
      {difference(report.prepared_parts.constants, after.constants), "quantized constants"},
      {difference(rest(report.input_bytes, before), rest(report.output_bytes, after)),
       "nodes and descriptions of values"}};
  std::ranges::stable_sort(parts, std::ranges::greater(), &std::pair<int64_t, std::string>::first);
  std::vector<std::string> words;
  for (const auto& [bytes, what] : parts) {
    if (bytes == 0) continue;
    words.push_back(fmt::format("{} {}{}", what, bytes > 0 ? "+" : "-",
                                HumanBytes(static_cast<uint64_t>(bytes > 0 ? bytes : -bytes))));
  }
  warnings.push_back({"larger", fmt::format("larger than the float model by {}, because: {}",
                                            HumanBytes(report.output_bytes - report.input_bytes),
                                            Join(words, ", "))});
}

// Says that most constants are float although weights have a format.
void WarnOfFloats(const QuantizeReport& report, std::vector<Warning>& warnings) {
  constexpr double kMost = 0.5;
  constexpr uint64_t kLeastBytes = 100'000;  // of constants; in small models scales are many
  if (!HasQuantized(report, plan::Role::kWeight) || report.output_parts.constants < kLeastBytes ||
      QuantizedShare(report) >= kMost) {
    return;
  }
  warnings.push_back(
      {"left_float",
       fmt::format("{:.0f} % of the bytes of constants stay float: the plan has the reasons "
                   "(bitpress plan)",
                   100 * (1 - QuantizedShare(report)))});
}

// Says that the fastest order of sums changes nothing, or nothing here.
void WarnOfSums(const QuantizeReport& report, std::vector<Warning>& warnings) {
  const std::optional<size_t>& count = report.transform.native.num_fastest_sums;
  if (!count) return;
  if (*count == 0) {
    warnings.push_back({"no_effect", fmt::format("{} changes nothing: no matrix product is "
                                                 "computed from codes",
                                                 OptionName("fastest_sums"))});
  } else if (!kernels::HasTiles()) {
    warnings.push_back(
        {"no_effect", fmt::format("{} changes nothing on this machine, whose processor has no AMX",
                                  OptionName("fastest_sums"))});
  }
}

void WarnOfOverflow(const QuantizeReport& report, std::vector<Warning>& warnings) {
  const uint64_t num_clipped =
      report.rewritten.narrowed ? report.rewritten.narrowed->constants.num_clipped : 0;
  if (num_clipped > 0) {
    warnings.push_back(
        {"overflow",
         fmt::format("{} of constants beyond 65504, the largest of FLOAT16, became that",
                     WithNoun(num_clipped, "value"))});
  }
  for (const auto& weight : report.transform.weights) {
    if (weight->num_overflowed == 0) continue;
    warnings.push_back(
        {"overflow", fmt::format("{} of {} elements of '{}' are beyond the largest value of {} and "
                                 "became that: leave it float by the rule 'tensors={}: exclude'",
                                 weight->num_overflowed, weight->num_elements, weight->value,
                                 weight->format, weight->value)});
  }
}

void WarnOfSamples(const QuantizeReport& report, std::vector<Warning>& warnings) {
  for (const auto& [value, reason] : report.left_float) {
    if (!reason.starts_with("NaN")) continue;
    warnings.push_back({"poor_samples", fmt::format("'{}' stays float: {}", value, reason)});
    break;  // others follow from the first one
  }
  if (report.takes_whole_items) {
    warnings.push_back(
        {"whole_items",
         fmt::format(
             "the rows of the first item of the samples do not run alone, or give something "
             "else beside each other, so each item is one sample: say {} if that is right",
             OptionName("whole_items"))});
  }
  if (!report.held_back || report.held_back->values.empty()) return;
  const calibrate::HeldBackReport& held = *report.held_back;
  warnings.push_back(
      {"unrepresented",
       fmt::format("{} of {} activations leave the ranges of the other samples in "
                   "{} that were held back, '{}' with {:.2g} % of its elements: "
                   "give more samples, or more varied ones",
                   held.values.size(), held.num_values, held.num_held_back,
                   held.values.front().value, 100 * held.values.front().outside_share)});
}

// Says that much is computed in float to keep the outputs close.
void WarnOfGuard(const QuantizeReport& report, std::vector<Warning>& warnings) {
  constexpr double kMuch = 0.25;
  if (!report.guard || report.guard->num_left == 0 || report.guard->left_share < kMuch) return;
  const plan::GuardReport& guard = *report.guard;
  const std::string of_task =
      guard.task_measure.empty()
          ? ""
          : fmt::format(", and the task to a loss of {:.2g} %", 100 * guard.task_loss_before);
  warnings.push_back(
      {"left_float",
       fmt::format("the guard leaves {} activations float, {:.0f} % of the products: rounded, they "
                   "bring output '{}' to {:.1f} dB{} (guard=off rounds them)",
                   guard.num_left, 100 * guard.left_share, guard.worst_output, guard.before_db,
                   of_task)});
}

}  // namespace

size_t NumSlowerSums(const QuantizeReport& report) {
  return kernels::HasTiles() ? report.transform.native.num_slower_sums : 0;
}

std::string SlowerLayers(const std::vector<deploy::LayerTime>& layers) {
  constexpr double kSlower = 1.1, kLeastShare = 0.01, kLeastSeconds = 2e-5;
  constexpr size_t kMostNamed = 3;
  double all = 0, loss = 0;
  for (const deploy::LayerTime& layer : layers) all += layer.given_seconds;
  std::vector<std::string> named;
  size_t num_slower = 0;
  for (const deploy::LayerTime& layer : layers) {
    const double more = layer.seconds - layer.given_seconds;
    if (more < std::max(kLeastSeconds, kLeastShare * all)) break;  // the others lose less
    if (layer.seconds < kSlower * layer.given_seconds) continue;
    loss += more;
    if (++num_slower > kMostNamed) continue;
    named.push_back(fmt::format("{} '{}' {} instead of {}", layer.op_type, layer.name,
                                Milliseconds(layer.seconds), Milliseconds(layer.given_seconds)));
  }
  if (num_slower == 0) return "";
  return fmt::format("slower than in the given model on this machine: {} of {}, {} in all; {}{}",
                     num_slower, WithNoun(layers.size(), "layer"), Milliseconds(loss),
                     num_slower > kMostNamed ? "most of it " : "", Join(named, ", "));
}

Verdict VerdictOf(const QuantizeReport& report) {
  Verdict verdict;
  verdict.lines = {SizeLine(report), fmt::format("{}; {}", ClosenessText(report), TimeText(report)),
                   SharesLine(report)};
  if (report.target && report.target->speed && report.target_runtime.empty()) {
    std::string slower = SlowerLayers(report.target->layers);
    if (!slower.empty()) verdict.lines.push_back(std::move(slower));
  }
  WarnOfRun(report, verdict.warnings);
  if (report.target && report.target->closeness) {
    WarnOfCloseness(*report.target->closeness, report.chosen_outputs, verdict.warnings);
  }
  WarnOfTarget(report, verdict.warnings);
  WarnOfNothing(report, verdict.warnings);
  WarnOfPreparation(report, verdict.warnings);
  WarnOfSpeed(report, verdict.warnings);
  WarnOfGrowth(report, verdict.warnings);
  WarnOfFloats(report, verdict.warnings);
  WarnOfSums(report, verdict.warnings);
  WarnOfOverflow(report, verdict.warnings);
  WarnOfSamples(report, verdict.warnings);
  WarnOfGuard(report, verdict.warnings);
  return verdict;
}

std::string Describe(const Verdict& verdict) {
  std::string text;
  for (const std::string& line : verdict.lines) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "  ", line);
  }
  for (const Warning& warning : verdict.warnings) {
    text += fmt::format("  WARNING: {}\n", warning.text);
  }
  return text;
}

std::string DecodedText(const deploy::TargetReport& report) {
  if (report.num_decoded == 0) return "";
  return fmt::format("with {} decoded, whose types it has no DequantizeLinear for",
                     WithNoun(report.num_decoded, "weight"));
}

}  // namespace bitpress::tasks
