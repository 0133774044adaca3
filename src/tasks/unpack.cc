#include "tasks/unpack.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "runtime/machine.h"
#include "tasks/write_model.h"
#include "weights/unpack_weights.h"

namespace bitpress::tasks {

UnpackReport Unpack(const UnpackOptions& options) {
  CheckWritable(options.output);
  graph::Model model = runtime::LoadPortable(options.model);
  UnpackReport report;
  report.input_bytes = graph::StoredBytes(options.model);
  ThreadPool pool(options.num_threads);
  WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    report.num_weights = weights::UnpackWeights(model, pool, options.progress);
    if (options.drop_quantizers) report.num_quantizers = weights::DropQuantizers(model);
    graph::RemoveUnused(model);
    WrittenModel written = WriteModel(std::move(model), {.output = options.output,
                                                         .given = options.model,
                                                         .external_data = options.external_data,
                                                         .is_checked = options.is_checked,
                                                         .samples = {},
                                                         .progress = options.progress});
    report.output_bytes = written.num_bytes;
    report.why_not_checked = std::move(written.why_not_checked);
  });
  return report;
}

nlohmann::ordered_json ToJson(const UnpackReport& report) {
  return VersionedJson("bitpress_unpacking", report);
}

}  // namespace bitpress::tasks
