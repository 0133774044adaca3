// The task `quantize`, the main one: reads a float model and writes a quantized model file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitpress/quantize_options.h"
#include "calibrate/held_back.h"
#include "deploy/check_target.h"
#include "emit/apply_plan.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "rewrite/prepare.h"
#include "rewrite/smooth.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// The samples are for scales, fine-tuning, SmoothQuant and the check at the end.
struct QuantizeOptions : RunOptions, QuantizeChoices {
  std::filesystem::path model;
  // The quantized model's file; may be `model` itself. It is written at the end and all at once: at
  // any time the old file or the new one is there, never a part. Until then fine-tuning keeps
  // `<output>.journal` beside it. A run that was stopped continues from the journal.
  std::filesystem::path output;
  plan::QuantConfig config;
  std::filesystem::path plan_file;  // not empty: read for the decisions instead of `config`
  // Changes the settings of fine-tuning in the plan's configuration; may be empty.
  std::function<void(plan::QuantConfig&)> change_plan = {};
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

struct QuantizeReport {
  std::filesystem::path output;  // the file that was written
  plan::QuantPlan plan;
  // What words of the configuration's optional rules fit nothing in the model.
  std::vector<std::string> unmatched_words;
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
  finetune::FinetuneReport finetune;       // empty without passes
  emit::TransformReport transform;
  uint64_t input_bytes = 0;  // size of the files, external data included
  uint64_t output_bytes = 0;
  // The parts of these bytes: in the given model, once it was prepared, and as it was written.
  graph::StoredParts input_parts;
  graph::StoredParts prepared_parts;
  graph::StoredParts output_parts;
};

// Prepares the model, plans (or reads the plan), quantizes, and writes the model, which is checked
// before it stands in its place (write_model.h). Throws Error; leaves nothing behind then.
QuantizeReport Quantize(const QuantizeOptions& options);

// Returns the report as `quantize --json` writes it.
nlohmann::ordered_json ToJson(const QuantizeReport& report);

}  // namespace bitpress::tasks
