// The task `evaluate`: measures accuracy, closeness to a float model, time and size of a model. Use
// it to compare a quantized model with its float model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "base/progress.h"
#include "data/source.h"
#include "evaluate/evaluate.h"

namespace bitpress::tasks {

struct EvaluateOptions {
  std::filesystem::path model;
  std::filesystem::path reference;  // empty: none
  data::SampleSpec samples;
  size_t batch_size = 20;
  size_t num_threads = 0;                                           // 0: one per core
  std::optional<evaluate::ProcessorKind> processor = std::nullopt;  // see evaluate/evaluate.h
  ProgressSink progress;                                            // may be empty
};

// Runs all samples through the model, and through the reference if there is one. Throws Error.
evaluate::EvaluationReport Evaluate(const EvaluateOptions& options);

}  // namespace bitpress::tasks
