#include "tasks/evaluate.h"

#include "ops/time_axis.h"
#include "runtime/machine.h"
#include "runtime/session.h"

namespace bitpress::tasks {

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options) {
  data::SourceOptions source = SourceFor(runtime::LoadToRun(options.model), options);
  if (!options.reference.empty()) {
    // The inputs of a quantized model's operators may be less well known than those of the float
    // model.
    source.use_whole_items |= ops::HasTimeFirst(runtime::LoadToRun(options.reference));
  }
  source.read_ahead = false;  // times are measured

  evaluate::EvaluateOptions evaluation;
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
