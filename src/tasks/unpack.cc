#include "tasks/unpack.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "runtime/machine.h"
#include "weights/unpack_weights.h"

namespace bitpress::tasks {

UnpackReport Unpack(const UnpackOptions& options) {
  CheckWritable(options.output);
  graph::Model model = runtime::LoadPortable(options.model);
  UnpackReport report;
  report.input_bytes = graph::StoredBytes(options.model);
  ThreadPool pool(options.num_threads);
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    report.num_weights = weights::UnpackWeights(model, pool, options.progress);
    if (options.drop_quantizers) report.num_quantizers = weights::DropQuantizers(model);
    graph::RemoveUnused(model);
    model.Check();
    report.output_bytes = model.Save(options.output, options.external_data);
  });
  return report;
}

}  // namespace bitpress::tasks
