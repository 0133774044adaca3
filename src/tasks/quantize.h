// The task `quantize`, the main one: reads a float model and writes a quantized model file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "bitpress/quantize_options.h"
#include "calibrate/held_back.h"
#include "calibrate/weight_ranges.h"
#include "deploy/check_target.h"
#include "emit/apply_plan.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "interop/import_weights.h"
#include "plan/bit_budget.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "rewrite/prepare.h"
#include "rewrite/smooth.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct SharedWork;  // shared_work.h

// The samples are for scales, fine-tuning, SmoothQuant and the check at the end.
struct QuantizeOptions : RunOptions, QuantizeChoices {
  std::filesystem::path model;
  // The quantized model's file; may be `model` itself. It is written at the end and all at once: at
  // any time the old file or the new one is there, never a part. Until then fine-tuning keeps
  // `<output>.journal` beside it. A run that was stopped continues from the journal.
  std::filesystem::path output;
  plan::QuantConfig config;
  std::filesystem::path plan_file;  // not empty: read for the decisions instead of `config`
  std::optional<plan::QuantPlan> plan = {};  // such decisions in memory
  // What other runs for the same model and samples leave, and take from here. May be null.
  std::shared_ptr<SharedWork> shared = {};
  // Changes the settings of fine-tuning in the plan's configuration; may be empty.
  std::function<void(plan::QuantConfig&)> change_plan = {};

  bool has_plan() const { return plan || !plan_file.empty(); }
};

// Returns the form that the model is written in.
emit::ApplyOptions FormOf(const QuantizeOptions& options);

// A pass of the preparation that changes what the model computes, before anything is rounded.
struct ChangingPass {
  std::string pass;
  std::string output;  // the output that it changes most
  double sqnr_db = 0;  // of that output, prepared with the pass, against the given model's
  bool is_undone = false;
};
constexpr auto FieldsOf(const ChangingPass*) {
  return std::tuple(Field{"pass", &ChangingPass::pass}, Field{"output", &ChangingPass::output},
                    Field{"sqnr_db", &ChangingPass::sqnr_db},
                    Field{"is_undone", &ChangingPass::is_undone});
}

struct QuantizeReport {
  std::filesystem::path output;  // the file that was written
  plan::QuantPlan plan;
  // What words of the configuration's optional rules fit nothing in the model.
  std::vector<std::string> unmatched_words;
  std::vector<std::string> target_settings;
  std::vector<std::string> target_scales;
  std::string target_runtime;  // that runs the model, if it is not this processor's
  // Each item of the samples is one, because its first row alone does not run.
  bool takes_whole_items = false;
  rewrite::RewriteReport rewritten;
  // Nothing: no pass does so, or the quantized model is as close as its formats explain.
  std::optional<ChangingPass> changing_pass;
  std::optional<rewrite::SmoothReport> smoothed;
  // The result of the check. Nothing if no check was asked for, or if it was not possible.
  std::optional<deploy::TargetReport> target;
  // The reason why the model was not checked although that was asked for; empty otherwise.
  std::string why_not_checked;
  // The operators of the float model that quantize or read codes, with their numbers: the model is
  // already quantized, in whole or in part, and what they read stays as it is.
  std::map<std::string, size_t> already_quantized;
  // The integer activations that stay float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float;
  // The weights that are uint8 instead of int8 (integer_kernels=safe).
  std::vector<plan::UnsignedWeight> unsigned_weights;
  // The verdict of the samples held back in calibration. Nothing: they were too few, or the
  // statistics come from a file.
  std::optional<calibrate::HeldBackReport> held_back;
  std::optional<plan::GuardReport> guard;  // nothing: there was nothing to guard
  // Outputs whose rows an operator such as TopK chooses, so that any rounding moves rows.
  std::set<std::string> chosen_outputs;
  // Nothing: no weight has weight_range=auto in blocks, or there were no samples to choose with.
  std::optional<calibrate::WeightRangeReport> weight_range;
  // The report on the weights of another tool; nothing if none were given.
  std::optional<interop::WeightImport> imported;
  // The mean bits of the operands; nothing unless the plan asks for them (mean_bits).
  std::optional<plan::MeanBits> mean_bits;
  finetune::FinetuneReport finetune;  // empty without passes
  std::string why_not_finetuned;      // although the configuration says so; empty otherwise
  emit::TransformReport transform;
  uint64_t input_bytes = 0;  // size of the files, external data included
  uint64_t output_bytes = 0;
  // The parts of these bytes: in the given model, once it was prepared, and as it was written.
  graph::StoredParts input_parts;
  graph::StoredParts prepared_parts;
  graph::StoredParts output_parts;
};

// The parts of the report whose JSON is made of several fields.
nlohmann::ordered_json TensorsJson(const QuantizeReport& report);
nlohmann::ordered_json CachesJson(const QuantizeReport& report);
nlohmann::ordered_json RewritesJson(const QuantizeReport& report);

struct Verdict;
Verdict VerdictOf(const QuantizeReport& report);  // see verdict.h

constexpr auto FieldsOf(const QuantizeReport*) {
  using Report = QuantizeReport;
  return std::tuple(
      ComputedField{"config", [](const Report& report) { return report.plan.config.name; }},
      Field{"input_bytes", &Report::input_bytes, "Size of the files, external data included."},
      Field{"output_bytes", &Report::output_bytes},
      ComputedField{"tensors", &TensorsJson,
                    "Each value of the plan with its role, its format (None: float) and the reason "
                    "why it stays float."},
      ComputedField{"caches", &CachesJson, "The key-value caches, likewise."},
      ComputedField{"weights", [](const Report& report) { return report.transform.weights; }},
      Field{"left_float", &Report::left_float,
            "Activations with an integer format that stayed float, with the reason."},
      Field{"already_quantized", &Report::already_quantized,
            "The operators that quantized or read codes before, with their numbers: what they read "
            "stays as it is. Empty for a float model."},
      Field{"unsigned_weights", &Report::unsigned_weights,
            "Weights that are uint8 instead of int8 (integer_kernels=safe)."},
      ComputedField{"rewrites", &RewritesJson, "What preparation changed."},
      Field{"finetuning", &Report::finetune, "Empty without fine-tuning."},
      Field{"why_not_finetuned", &Report::why_not_finetuned,
            "Why nothing was learned although the configuration says so. '' otherwise."},
      Field{
          "imported", &Report::imported,
          "What became of the weights that another tool quantized (weights_from). None: none were "
          "given."},
      Field{"mean_bits", &Report::mean_bits,
            "Mean bits of weights and activations. None: mean_bits is not set."},
      Field{"guard", &Report::guard, "None: there was nothing to guard."},
      Field{"weight_range", &Report::weight_range,
            "What weights with weight_range=auto were measured to do. None: there are none in "
            "blocks, or there were no samples to choose with."},
      Field{"held_back", &Report::held_back,
            "What the samples held back in calibration show. None: they were too few, or the "
            "statistics come from a file."},
      ComputedField{"native", [](const Report& report) { return report.transform.native; },
                    "Weights that ONNX Runtime's own operators read."},
      ComputedField{"integer_operators",
                    [](const Report& report) { return report.transform.integer; },
                    "Nodes that form=qoperator wrote as operators on codes."},
      ComputedField{"not_standard",
                    [](const Report& report) { return report.transform.not_standard; },
                    "Weights that storage=qdq packed, with the reason why the ONNX standard has no "
                    "form for them."},
      ComputedField{"needs_library",
                    [](const Report& report) { return report.transform.portable.omissions; },
                    "Operators that run only with the operator library."},
      ComputedField{"verdict", &VerdictOf, "What a user has to know before anything else."},
      Field{"check", &Report::target,
            "What ONNX Runtime makes of the model. None if it was not checked.", "target"},
      Field{"why_not_checked", &Report::why_not_checked,
            "Why the model was not checked although that was asked for. '' otherwise."},
      Field{"target_settings", &Report::target_settings,
            "Settings that the target has in place of the configuration's, as 'key=value'."},
      Field{"target_scales", &Report::target_scales,
            "Scales that were changed because of the target's rules, a sentence each."},
      Field{"target_runtime", &Report::target_runtime,
            "What runs the model, if the target is not for this processor. '' otherwise."},
      ComputedField{
          "broken_rules", [](const Report& report) { return report.transform.broken_rules; },
          "The rules of the target about the model as a whole that it breaks, such as fixed "
          "sizes of inputs."},
      Field{"unmatched_words", &Report::unmatched_words,
            "What words of optional rules fit nothing in the model."});
}

// Prepares the model, plans (or reads the plan), quantizes, and writes the model, which is checked
// before it stands in its place (write_model.h). Throws Error; leaves nothing behind then.
QuantizeReport Quantize(const QuantizeOptions& options);

// Returns the report as `quantize --json` writes it.
nlohmann::ordered_json ToJson(const QuantizeReport& report);

}  // namespace bitpress::tasks
