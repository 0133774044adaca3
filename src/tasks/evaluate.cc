#include "tasks/evaluate.h"

#include "base/atomic_file.h"
#include "ops/time_axis.h"
#include "runtime/machine.h"
#include "runtime/session.h"
#include "tasks/merge_files.h"

namespace bitpress::tasks {

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options) {
  std::optional<AtomicFile> file;  // before any work: one that cannot be written would cost all
  if (!options.output.empty()) file.emplace(options.output);
  uint64_t fingerprint = 0;
  uint64_t reference_fingerprint = 0;
  evaluate::EvaluateOptions evaluation;
  data::SourceOptions source;
  {
    const graph::Model model = runtime::LoadToRun(options.model);
    source = SourceFor(model, options);
    if (file) fingerprint = model.Fingerprint();
  }
  if (source.tokens) evaluation.tokens = source.tokens->inputs;
  if (!options.reference.empty()) {
    const graph::Model reference = runtime::LoadToRun(options.reference);
    // The inputs of a quantized model's operators may be less well known than those of the float
    // model.
    source.use_whole_items |= ops::HasTimeFirst(reference);
    if (source.tokens) evaluation.reference_tokens = data::TokenInputs(reference);
    if (file) reference_fingerprint = reference.Fingerprint();
  }
  source.read_ahead = file.has_value();  // else times are measured

  evaluation.model = options.model;
  evaluation.reference = options.reference;
  evaluation.batch_size = options.batch_size;
  evaluation.output_index = options.output_index;
  evaluation.num_threads = runtime::SessionThreads(options.num_threads);
  evaluation.processor = options.processor;
  evaluation.progress = options.progress;
  const std::unique_ptr<data::Source> samples = data::OpenSource(source);
  if (!file) return evaluate::Evaluate(evaluation, *samples);

  evaluate::EvaluationState state = evaluate::Count(evaluation, *samples);
  state.model.fingerprint = fingerprint;
  state.reference.fingerprint = reference_fingerprint;
  file->Write(evaluate::ToBytes(state));
  file->Commit();
  return evaluate::ReportOf(state);
}

evaluate::EvaluationState ReadEvaluation(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  return WithContext(fmt::format("'{}'", path.string()),
                     [&] { return evaluate::EvaluationStateFromBytes(bytes); });
}

bool IsEvaluation(const std::filesystem::path& path) {
  return HasFormat(path, evaluate::kEvaluationFile);
}

evaluate::EvaluationState MergeEvaluations(std::span<const std::filesystem::path> paths,
                                           const std::filesystem::path& output) {
  return MergeFiles(paths, output, "evaluation files", ReadEvaluation, evaluate::ToBytes);
}

}  // namespace bitpress::tasks
