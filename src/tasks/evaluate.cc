#include "tasks/evaluate.h"

#include "ops/time_axis.h"
#include "runtime/machine.h"
#include "runtime/session.h"

namespace bitpress::tasks {

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options) {
  data::SourceOptions source = SourceFor(runtime::LoadToRun(options.model), options);
  evaluate::EvaluateOptions evaluation;
  if (source.tokens) evaluation.tokens = source.tokens->inputs;
  if (!options.reference.empty()) {
    const graph::Model reference = runtime::LoadToRun(options.reference);
    // The inputs of a quantized model's operators may be less well known than those of the float
    // model.
    source.use_whole_items |= ops::HasTimeFirst(reference);
    if (source.tokens) evaluation.reference_tokens = data::TokenInputs(reference);
  }
  source.read_ahead = false;  // times are measured

  evaluation.model = options.model;
  evaluation.reference = options.reference;
  evaluation.batch_size = options.batch_size;
  evaluation.output_index = options.output_index;
  evaluation.num_threads = runtime::SessionThreads(options.num_threads);
  evaluation.processor = options.processor;
  evaluation.progress = options.progress;
  return evaluate::Evaluate(evaluation, *data::OpenSource(source));
}

}  // namespace bitpress::tasks
