// A model against labels and against its float twin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bitpress/export.h"
#include "bitpress/progress.h"
#include "bitpress/samples.h"

namespace bitpress {

struct EvaluateOptions {
  std::filesystem::path model;
  std::filesystem::path reference;  // the float model; empty: none
  Samples samples;
  size_t batch_size = 20;
  // In whose terms the model is measured besides; the figures are in EvaluateResult::json.
  std::string task = "auto";
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

struct EvaluateResult {
  size_t num_samples = 0;
  // Accuracies, 0 to 1. Nothing without labels or without class scores.
  std::optional<double> top1, top5;
  // Share of the samples for which both models rank the same class first, 0 to 1.
  std::optional<double> agreement;
  // Closeness of all outputs to the reference's. No ratio is given where the outputs are identical.
  std::optional<double> sqnr_db, cosine;
  bool has_identical_outputs = false;
  // For tokens: exp of the mean negative log-likelihood.
  std::optional<double> perplexity;
  // Median over the batches of the model's time divided by the reference's.
  std::optional<double> time_ratio;
  uint64_t file_bytes = 0;
  std::string json;  // everything, as `bitpress evaluate --json` writes it
};

// Runs all samples through the model, and through the reference if there is one. Throws Error.
BITPRESS_API EvaluateResult Evaluate(const EvaluateOptions& options);

}  // namespace bitpress
