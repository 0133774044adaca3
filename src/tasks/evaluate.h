// The task `evaluate`: measures accuracy, closeness to a float model, time and size of a model. Use
// it to compare a quantized model with its float model. What parts of the samples gave, on one
// machine or several, is kept in evaluation files and added up.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "evaluate/evaluate.h"
#include "evaluate/state.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct EvaluateOptions : RunOptions {
  std::filesystem::path model;
  std::filesystem::path reference;  // empty: none
  size_t batch_size = 20;
  std::optional<size_t> output_index = std::nullopt;                // see evaluate/evaluate.h
  std::optional<evaluate::ProcessorKind> processor = std::nullopt;  // see evaluate/evaluate.h
  // The evaluation file to write. Then samples run one at a time (`batch_size` does not count), and
  // no times are measured. Empty: none.
  std::filesystem::path output;
};

// Runs all samples through the model, and through the reference if there is one. Throws Error, and
// leaves no file behind then.
evaluate::EvaluationReport Evaluate(const EvaluateOptions& options);

// Reads an evaluation file. Throws Error naming the file.
evaluate::EvaluationState ReadEvaluation(const std::filesystem::path& path);
// Returns whether a file starts like an evaluation file. Returns false if it cannot be read.
bool IsEvaluation(const std::filesystem::path& path);

// Adds up evaluation files of one model and reference, and writes the result. `output` may be one
// of the files. The result is exactly that of one evaluation of all samples, in whatever order.
// Throws Error naming the file that does not fit.
evaluate::EvaluationState MergeEvaluations(std::span<const std::filesystem::path> paths,
                                           const std::filesystem::path& output);

}  // namespace bitpress::tasks
