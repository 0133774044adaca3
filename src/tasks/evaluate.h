// The task `evaluate`: measures accuracy, closeness to a float model, time and size of a model. Use
// it to compare a quantized model with its float model. What parts of the samples gave, on one
// machine or several, is kept in evaluation files and added up.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "evaluate/evaluate.h"
#include "evaluate/state.h"
#include "tasks/merge_files.h"
#include "tasks/run.h"

namespace bitpress::tasks {

struct EvaluateOptions : RunOptions, evaluate::EvaluateSettings {
  // The evaluation file to write. Then samples run one at a time (`batch_size` does not count), and
  // no times are measured. Empty: none.
  std::filesystem::path output;
  // Takes each sample that was left out, with its error, at the end. May be empty.
  std::function<void(const data::FailedSample&)> on_left_out = {};
};

// Models that are loaded once, to measure parts of the samples again and again. Use it in a process
// that works on many parts. One thread at a time uses it.
class Evaluator {
 public:
  // Loads the models. `samples`, `output`, `batch_size` and `progress` of the options are not used.
  // Throws Error.
  explicit Evaluator(const EvaluateOptions& options);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  // Measures these samples alone. Throws Error. If all samples failed, it is a state of none.
  evaluate::EvaluationState Count(const data::SampleSpec& samples, const ProgressSink& progress);
  // Returns whether the models' files are as they were before they were read.
  bool IsCurrent() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs all samples through the model, and through the reference if there is one. Throws Error, and
// leaves no file behind then.
evaluate::EvaluationReport Evaluate(const EvaluateOptions& options);

// Reads an evaluation file. Throws Error naming the file.
evaluate::EvaluationState ReadEvaluation(const std::filesystem::path& path);
// Returns whether a file starts like an evaluation file. Returns false if it cannot be read.
bool IsEvaluation(const std::filesystem::path& path);

// Adds up evaluation files of one model and reference, and writes the result. `output` may be one
// of the files. The result is exactly that of one evaluation of all samples, in whatever order. At
// most `most_failures` samples may have been left out in all. Throws Error naming the file that
// does not fit, or those samples.
evaluate::EvaluationState MergeEvaluations(std::span<const std::filesystem::path> paths,
                                           const std::filesystem::path& output,
                                           size_t most_failures = kAnyNumber);

}  // namespace bitpress::tasks
