#include "quantized_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ranges>
#include <string_view>

#include "base/messages.h"
#include "base/text.h"
#include "command.h"
#include "finetuned_text.h"
#include "ops/operator_traits.h"
#include "plan/dynamic_rows.h"
#include "plan/target_profile.h"
#include "rewrites_text.h"
#include "target_text.h"
#include "tasks/verdict.h"

namespace bitpress::apps {
namespace {

// Returns the formats of one role's rows with their numbers: "5 mx6, 1 float".
std::string CountFormats(const plan::QuantPlan& plan, plan::Role role) {
  std::map<std::string, size_t> counts;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == role) ++counts[row.is_quantized() ? row.format : "float"];
  }
  std::vector<std::string> words;
  for (const auto& [format, count] : counts) words.push_back(fmt::format("{} {}", count, format));
  return words.empty() ? "none" : Join(words, ", ");
}

// Lists "    12 float: the reason" for each reason, the most frequent first.
std::string ListCounted(std::string_view what, const std::vector<std::string>& reasons) {
  std::map<std::string, size_t> counts;
  // The names of nodes are cut off, so that equal reasons of many tensors count together.
  for (const std::string& reason : reasons) ++counts[reason.substr(0, reason.find(" '"))];
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<size_t, std::string>::first);
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, sorted.size()); ++i) {
    text += fmt::format("  {:>5} {}: {}\n", sorted[i].first, what, sorted[i].second);
  }
  if (sorted.size() > kMost) text += "        and more: see `bitpress plan`\n";
  return text;
}

// Lists the reasons why tensors other than biases stay float.
std::string ListReasons(const plan::QuantPlan& plan) {
  std::vector<std::string> reasons;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.is_quantized() && row.role != plan::Role::kBias) reasons.push_back(row.reason);
  }
  return ListCounted("float", reasons);
}

// Says that tables have another format than the weights, which nobody asked for.
std::string DescribeTables(const plan::QuantPlan& plan) {
  const auto spec = plan::ResolveEmbeddings(plan.config);
  if (plan.config.embeddings != "default" || !spec || spec->name == plan.config.weights) return "";
  const auto num_tables = std::ranges::count_if(plan.tensors, [&](const plan::TensorPlan& row) {
    const auto looks_up = [](const plan::TensorUse& use) {
      return ops::TraitsNamed(use.op_type).Is(ops::kLooksUp);
    };
    return row.role == plan::Role::kWeight && row.format == spec->name &&
           std::ranges::any_of(row.uses, looks_up);
  });
  if (num_tables == 0) return "";
  return fmt::format(
      "      {} in {} because Gather looks rows up in them (embeddings=FORMAT|none)\n", num_tables,
      spec->name);
}

// Lists the formats of the caches that attention may hold as integers, and why some stay float.
std::string DescribeCaches(const plan::QuantPlan& plan) {
  if (plan.caches.empty()) return "";
  std::map<std::string, size_t> counts;
  std::vector<std::string> reasons;
  for (const plan::CachePlan& cache : plan.caches) {
    if (!cache.is_quantized()) {
      ++counts["float"];
      reasons.push_back(cache.reason);
      continue;
    }
    const bool is_per_axis = cache.granularity == plan::Granularity::kPerAxis;
    ++counts[cache.format + (is_per_axis ? " with a scale for each head and channel" : "")];
  }
  std::vector<std::string> words;
  for (const auto& [format, count] : counts) words.push_back(fmt::format("{} {}", count, format));
  return fmt::format("  caches:      {}\n{}", fmt::join(words, ", "),
                     ListCounted("float", reasons));
}

// Describes how many nodes a pass rewrote, and why it left the others.
template <typename Rewritten>
std::string DescribeRewritten(std::string_view done, std::string_view not_done,
                              const Rewritten& rewritten) {
  std::vector<std::string> reasons;
  for (const auto& [name, reason] : rewritten.omissions) reasons.push_back(reason);
  return fmt::format("  {:>5} nodes {}\n", rewritten.num_nodes, done) +
         ListCounted(not_done, reasons);
}

using Weights = std::vector<std::shared_ptr<const weights::WeightStatistics>>;

// Describes how many bytes and bits the quantized weights take, and which one lost most.
std::string DescribeWeights(const Weights& weights) {
  if (weights.empty()) return "";
  uint64_t num_bytes = 0;
  int64_t num_elements = 0;
  for (const auto& weight : weights) {
    num_bytes += weight->stored_bytes;
    // A head that reads the codes of a table has none of its own.
    if (weight->stored_bytes > 0) num_elements += weight->num_elements;
  }
  const auto& worst =
      **std::ranges::min_element(weights, {}, [](const auto& weight) { return weight->sqnr_db; });
  std::string text =
      fmt::format("  quantized constants: {}, {:.2f} bits each", HumanBytes(num_bytes),
                  8 * static_cast<double>(num_bytes) / static_cast<double>(num_elements));
  // Fine-tuned weights are values of their format already, and lose nothing here.
  if (std::isfinite(worst.sqnr_db)) {
    text += fmt::format("; least accurate: '{}', SQNR {:.1f} dB", worst.value, worst.sqnr_db);
  }
  return text + "\n";
}

// Says how many codes integer_kernels=safe moved.
std::string DescribePairs(
    const plan::QuantPlan& plan,
    const std::vector<std::shared_ptr<const weights::WeightStatistics>>& weights) {
  const auto num_safe = std::ranges::count_if(plan.tensors, [](const plan::TensorPlan& row) {
    return row.integer && row.integer->is_pair_safe;
  });
  if (num_safe == 0) return "";
  size_t num_changed = 0;
  uint64_t num_pairs = 0;
  for (const auto& weight : weights) {
    if (weight->num_fitted_pairs > 0) ++num_changed;
    num_pairs += weight->num_fitted_pairs;
  }
  return fmt::format(
      "  right with and without VNNI: {} pairs of codes moved in {} of {} weights whose products "
      "could saturate (integer_kernels=vnni leaves them)\n",
      num_pairs, num_changed, num_safe);
}

// Lists the weights that became uint8, and what that saves.
std::string DescribeUnsigned(const std::vector<plan::UnsignedWeight>& weights) {
  std::string text;
  constexpr size_t kMost = 5;
  for (size_t i = 0; i < std::min(kMost, weights.size()); ++i) {
    text += fmt::format(
        "        '{}' is uint8, which saves its layer {:.1f} dB (integer_kernels=safe_int8: "
        "int8)\n",
        weights[i].value, weights[i].saved_db);
  }
  if (weights.size() > kMost) text += fmt::format("        and {} more\n", weights.size() - kMost);
  return text;
}

// Names the activations whose ranges do not hold for samples that were held back.
std::string DescribeHeldBack(const calibrate::HeldBackReport& report) {
  if (report.values.empty()) return "";
  std::string text = fmt::format(
      "  samples:     {} of {} were held back; {} of {} activations leave the ranges of the others "
      "there: give more samples, or more varied ones\n",
      report.num_held_back, report.num_samples, report.values.size(), report.num_values);
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(kMost, report.values.size()); ++i) {
    const calibrate::Unrepresented& value = report.values[i];
    text += fmt::format(
        "        '{}': {:.2g} % of its elements are outside, its rounding error grows by {:.1f} "
        "dB\n",
        value.value, 100 * value.outside_share, value.lost_db);
  }
  return text;
}

// Says how many weights have the codes of the file that they came from, and why others have not.
std::string DescribeImport(const interop::WeightImport& import, bool is_verbose) {
  std::map<std::string, size_t> kept;
  std::vector<std::string> others;
  std::string details;
  for (const interop::ImportedWeight& weight : import.weights) {
    if (weight.is_kept()) {
      ++kept[fmt::format("{} as {}", weight.type, weight.format)];
    } else {
      others.push_back(fmt::format("{} as {}, {}", weight.type,
                                   weight.format == "none" ? "float" : weight.format,
                                   weight.reason));
    }
    details += fmt::format("        '{}' is {} ({}{})\n", weight.value, weight.source, weight.type,
                           weight.is_kept() ? "" : ": " + weight.reason);
  }
  std::vector<std::string> words;
  for (const auto& [types, count] : kept) words.push_back(fmt::format("{} {}", count, types));
  std::string text = fmt::format(
      "  imported:    {} of {} weights with every code of the file{}{}; {} norms and biases\n",
      import.num_kept(), import.weights.size(), words.empty() ? "" : ": ", fmt::join(words, ", "),
      import.num_vectors);
  text += ListCounted("without its codes", others);
  constexpr size_t kMost = 3;
  const auto list = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("  {:>5} {}: {}{}\n", names.size(), what,
                        fmt::join(names | std::views::take(kMost), ", "),
                        names.size() > kMost ? ", ..." : "");
  };
  list("not in the file", import.not_in_file);
  list("of the file not in the model", import.unused);
  return is_verbose ? text + details : text;
}

// Says what the task said besides decibels; "" if it is not known.
std::string DescribeGuardTask(const plan::GuardReport& guard, double most_loss) {
  if (!guard.why_no_task.empty()) {
    return fmt::format("        decibels decide: {}\n", guard.why_no_task);
  }
  if (guard.task_measure.empty()) return "";
  const std::string counted =
      guard.task_items.empty() ? ""
                               : fmt::format("{} {} in ", guard.num_task_items, guard.task_items);
  const std::string before = fmt::format("{:.2f} %", 100 * guard.task_loss_before);
  const std::string loss = guard.num_left == 0 ? before
                                               : fmt::format("{:.2f} %, {} if all were rounded",
                                                             100 * guard.task_loss, before);
  return fmt::format("        loss of the task: {} ({}, {}{}), allowed is {:g} % (guard_loss)\n",
                     loss, guard.task_measure, counted, WithNoun(guard.num_task_samples, "sample"),
                     most_loss);
}

// Describes what the guard found, and what it left float.
std::string DescribeGuard(const plan::GuardReport& guard, const plan::QuantConfig& config) {
  const double wanted_db = config.guard.value_or(0);
  if (guard.num_samples == 0) {
    return guard.note.empty() ? "" : fmt::format("  guard:       not used: {}\n", guard.note);
  }
  std::string text;
  if (!guard.range_method.empty()) {
    text = fmt::format(
        "  guard:       the outputs have {:.1f} dB instead of {:.1f} with activation_range={}, "
        "which is used\n",
        guard.before_db, guard.first_db, guard.range_method);
  }
  if (guard.has_no_noise()) {
    return fmt::format("{}  guard:       rounding activations changes no output ({} samples)\n",
                       text, guard.num_samples);
  }
  text +=
      guard.before_db < 0
          ? fmt::format("  guard:       rounding activations gives NaN or infinity in output '{}'",
                        guard.worst_output)
          : fmt::format(
                "  guard:       rounding activations brings the error of output '{}' to {:.1f} dB",
                guard.worst_output, guard.before_db);
  if (guard.before_db >= wanted_db) {
    return fmt::format("{}, wanted are {:g} ({} samples)\n", text, wanted_db, guard.num_samples);
  }
  text += fmt::format(", wanted are {:g} ({} samples)", wanted_db, guard.num_samples);
  const std::string of_task = DescribeGuardTask(guard, config.guard_loss);
  if (guard.num_left == 0) {
    const std::string why = guard.note.empty() ? "the task does not need floats" : guard.note;
    return fmt::format("{}: {}\n{}", text, why, of_task);
  }
  const std::string after =
      guard.after_db >= plan::GuardReport::kNoNoiseDb
          ? "all that bring an error"
          : fmt::format("which gives {:.1f} dB at the worst output", guard.after_db);
  return text + fmt::format(
                    ":\n        {} activations stay float, {}, and {:.0f} % of the products are "
                    "computed in float{}\n{}",
                    guard.num_left, after, 100 * guard.left_share,
                    guard.has_reached_bound ? "; more would be more than guard_share of them" : "",
                    of_task);
}

// Says which method the outputs chose for blocks of weights.
std::string DescribeWeightRange(const calibrate::WeightRangeReport& report) {
  std::vector<std::string> tried;
  for (const calibrate::TriedRange& one : report.tried) {
    tried.push_back(fmt::format("{} {:.1f}", one.method, one.sqnr_db));
  }
  return fmt::format(
      "  weight_range: {}, by the outputs: {} (dB at the worst output, {} samples)\n",
      report.method, fmt::join(tried, ", "), report.num_samples);
}

// Says how many bits weights and activations have, and which layers got more than the others.
std::string DescribeMeanBits(const plan::QuantPlan& plan, const plan::MeanBits& mean) {
  std::vector<std::string> means;
  double most = 0;
  const auto add = [&](double bits, const std::string& format, plan::Role role) {
    if (bits == 0) return;
    const auto num_others = std::ranges::count_if(plan.tensors, [&](const plan::TensorPlan& row) {
      return row.role == role && row.is_quantized() && row.format != format;
    });
    means.push_back(fmt::format("{:.2f} for {}s ({} of them not in {})", bits, plan::RoleName(role),
                                num_others, format));
    most = std::max(most, bits);
  };
  add(mean.weights, plan.config.weights, plan::Role::kWeight);
  add(mean.activations, plan.config.activations, plan::Role::kActivation);
  const std::string_view above = most > plan.config.mean_bits + 1e-9
                                     ? "; short blocks or floats have more than mean_bits allows"
                                     : "";
  return fmt::format("  mean bits:   {}, at most {:g} wanted{}\n", Join(means, ", "),
                     plan.config.mean_bits, above);
}

// Says which heads read the codes of a table, and how one gets a format of its own that took the
// table's (plan/node_rules.h).
std::string DescribeTiedHeads(const tasks::QuantizeReport& report) {
  std::string text;
  for (const auto& table : report.transform.weights) {
    if (!table->tied) continue;
    const bool is_wider = table->format != report.plan.config.weights;
    text += fmt::format("  tied head:   '{}' reads the codes of '{}' ({}){}\n", table->tied->value,
                        table->value, table->format,
                        is_wider ? "; a rule with weights=FORMAT for it writes a copy" : "");
  }
  return text;
}

// Returns whether the guard changed something, or could not do what was asked.
bool IsNoteworthy(const plan::GuardReport& guard) {
  return guard.num_left > 0 || !guard.range_method.empty() || !guard.note.empty() ||
         !guard.task_measure.empty() || guard.before_db < 0;
}

// Says what a file of their own would spare, if that is worth a second file.
std::string DescribeMemory(const tasks::QuantizeOptions& options,
                           const tasks::QuantizeReport& report) {
  constexpr uint64_t kWorth = uint64_t{64} << 20, kMostInOneFile = uint64_t{2} << 30;
  if (!emit::ComputesFromCodes(tasks::FormOf(options), report.plan.operators) ||
      report.transform.native.num_nodes == 0 || options.has_external_data ||
      report.output_bytes < kWorth || report.output_bytes >= kMostInOneFile) {
    return "";
  }
  return "    less memory at run time: weights in a file of their own (--external-data)\n";
}

// Says that products of many rows may be faster here, if nobody asked for that.
std::string DescribeSlowerSums(const tasks::QuantizeReport& report) {
  const size_t count = tasks::NumSlowerSums(report);
  if (count == 0) return "";
  return fmt::format(
      "  prompts:     {} of many rows would take less time with --fastest-sums, as this processor "
      "has AMX; last bits then differ between processors\n",
      WithNoun(count, "product"));
}

// Counts the weights whose codes take more bits in the file than their format has.
std::string DescribeWiderTypes(const Weights& weights) {
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const auto& weight : weights) {
    if (!weight->wider_type.empty()) ++counts[{weight->format, weight->wider_type}];
  }
  std::string text;
  for (const auto& [key, count] : counts) {
    text +=
        fmt::format("  wider codes: {} in {} are stored as {}: ONNX has no type of their bits\n",
                    WithNoun(count, "weight"), key.first, key.second);
  }
  return text;
}

// Describes what was done in all its details.
std::string DescribeDetails(const tasks::QuantizeOptions& options,
                            const tasks::QuantizeReport& report) {
  const plan::QuantPlan& plan = report.plan;
  std::string text =
      fmt::format("  activations: {}\n", CountFormats(plan, plan::Role::kActivation));
  text += fmt::format("  weights:     {}\n", CountFormats(plan, plan::Role::kWeight));
  text += DescribeTables(plan);
  text += fmt::format("  biases:      {}\n", CountFormats(plan, plan::Role::kBias));
  text += DescribeCaches(plan);
  text += ListReasons(plan);
  const emit::NativeOperators& native = report.transform.native;
  const bool is_target_chosen =
      plan::ProfileOf(options.target).contributed != plan::CodeReaders::kNone;
  if (is_target_chosen || native.num_nodes > 0 || !native.omissions.empty()) {
    text += DescribeRewritten("compute from codes of weights", "decoded at load", native);
    text += DescribeMemory(options, report);
  }
  if (options.form == IntegerForm::kQOperator) {
    text += DescribeRewritten("are operators on integers", "between Q and DQ as ever",
                              report.transform.integer);
  }
  if (report.held_back) text += DescribeHeldBack(*report.held_back);
  constexpr size_t kMostLeft = 12;
  for (size_t i = 0; i < std::min(kMostLeft, report.left_float.size()); ++i) {
    text += fmt::format("  left float: '{}': {}\n", report.left_float[i].first,
                        report.left_float[i].second);
  }
  if (report.left_float.size() > kMostLeft) {
    text += fmt::format("  left float: and {} more\n", report.left_float.size() - kMostLeft);
  }
  text += DescribeTunedLayers(report.finetune);
  text += DescribeWeights(report.transform.weights);
  text += DescribePairs(plan, report.transform.weights);
  text += DescribeUnsigned(report.unsigned_weights);
  return report.target ? text + DescribeTarget(*report.target, /*max_float_nodes=*/5,
                                               /*max_saturating_nodes=*/0)
                       : text;
}

}  // namespace

std::string DescribeQuantized(const tasks::QuantizeOptions& options,
                              const tasks::QuantizeReport& report, bool is_verbose) {
  const plan::QuantPlan& plan = report.plan;
  std::string text = SpellOptions(tasks::Describe(tasks::VerdictOf(report)), Spelt);
  if (!report.target_settings.empty()) {
    text += fmt::format("  target {}: {}\n", plan::ProfileOf(options.target).name,
                        fmt::join(report.target_settings, ", "));
  }
  for (const std::string& sentence : report.target_scales) {
    text += fmt::format("  target {}: {}\n", plan::ProfileOf(options.target).name, sentence);
  }
  if (report.imported) text += DescribeImport(*report.imported, is_verbose);
  text += DescribeRewrites(report.rewritten, is_verbose);
  if (report.smoothed) text += DescribeSmoothing(*report.smoothed, is_verbose);
  for (const emit::PortableFunctions::Omission& omission : report.transform.portable.omissions) {
    text += fmt::format("  needs our library: {}: {}\n", omission.op_type, omission.reason);
  }
  std::vector<std::string> not_standard;
  for (const auto& [name, why] : report.transform.not_standard) not_standard.push_back(why);
  text += ListCounted("packed, for the ONNX standard has no form of them", not_standard);
  text += DescribeWiderTypes(report.transform.weights);
  if (report.guard && (is_verbose || IsNoteworthy(*report.guard))) {
    text += DescribeGuard(*report.guard, plan.config);
  }
  if (report.weight_range && (is_verbose || report.weight_range->method != "auto")) {
    text += DescribeWeightRange(*report.weight_range);
  }
  text += DescribeTiedHeads(report);
  if (report.mean_bits) text += DescribeMeanBits(plan, *report.mean_bits);
  if (!report.why_not_finetuned.empty()) {
    text += fmt::format("  fine-tuned:  no, {}\n", report.why_not_finetuned);
  }
  if (!report.finetune.scaled.smoothed.empty() || !report.finetune.scaled.left_alone.empty()) {
    text += DescribeScaled("awq:", report.finetune.scaled);
  }
  text += DescribeFinetuning(report.finetune);
  text += DescribeSlowerSums(report);
  const size_t num_slow = plan::NumDynamicConvolutions(plan);
  if (!report.target && num_slow > 0) {  // else the check times them
    text += fmt::format("  {}\n", DescribeDynamicConvolutions(num_slow));
  }
  return is_verbose ? text + DescribeDetails(options, report) : text;
}

}  // namespace bitpress::apps
