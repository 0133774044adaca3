// The task `evaluate`: measures accuracy, closeness to a float model, time and size of a model. Use
// it to compare a quantized model with its float model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "evaluate/evaluate.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct EvaluateOptions : RunOptions {
  std::filesystem::path model;
  std::filesystem::path reference;  // empty: none
  size_t batch_size = 20;
  std::optional<size_t> output_index = std::nullopt;                // see evaluate/evaluate.h
  std::optional<evaluate::ProcessorKind> processor = std::nullopt;  // see evaluate/evaluate.h
};

// Runs all samples through the model, and through the reference if there is one. Throws Error.
evaluate::EvaluationReport Evaluate(const EvaluateOptions& options);

}  // namespace bitpress::tasks
