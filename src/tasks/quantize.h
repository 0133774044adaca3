// The task `quantize`, the main one: a float model -> a quantized model file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "deploy/check_target.h"
#include "emit/apply_plan.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "rewrite/equalize.h"
#include "rewrite/prepare.h"
#include "rewrite/smooth.h"

namespace bitpress::tasks {

struct QuantizeOptions {
  std::filesystem::path model;
  // May be `model` itself. Written at the end and all at once: there is the old file or the new
  // one, never a part. Fine-tuning keeps `<output>.journal` beside it until then, with which a run
  // that was stopped goes on.
  std::filesystem::path output;
  plan::QuantConfig config;
  std::filesystem::path
      plan_file;  // not empty: the decisions come from there and `config` is not read
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  graph::PassNames disabled_passes = {};  // see AllPasses; for bisecting
  // Integer activations: a file of Calibrate, or the samples to gather statistics from.
  std::filesystem::path calibration;
  data::SampleSpec samples;
  emit::ApplyOptions apply;
  graph::ExternalData external_data = graph::ExternalData::kIfNeeded;
  // Loads what was written and runs a sample. Nothing: if it is no larger than kMostCheckedBytes,
  // because ONNX Runtime holds a model in memory several times.
  std::optional<bool> is_checked = std::nullopt;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};
inline constexpr uint64_t kMostCheckedBytes = 100'000'000;

struct QuantizeReport {
  plan::QuantPlan plan;
  std::optional<rewrite::EqualizeReport> equalized;
  std::optional<rewrite::SmoothReport> smoothed;
  // Nothing: it was not asked for, or the check's temporary files could not be written.
  std::optional<deploy::TargetReport> target;
  // Why the model was not checked although that was asked for; empty otherwise.
  std::string why_not_checked;
  // Integer activations that stay float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float;
  // Weights that are uint8 instead of int8 (integer_kernels=safe).
  std::vector<plan::UnsignedWeight> unsigned_weights;
  finetune::FinetuneReport finetune;  // empty without passes
  emit::TransformReport transform;
  uint64_t input_bytes = 0;  // of the files, external data included
  uint64_t output_bytes = 0;
};

// Prepares, plans (or reads the plan), quantizes, writes. Throws Error; nothing is left behind
// then.
QuantizeReport Quantize(const QuantizeOptions& options);

}  // namespace bitpress::tasks
