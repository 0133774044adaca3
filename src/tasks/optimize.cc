#include "tasks/optimize.h"

#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "runtime/machine.h"
#include "runtime/optimize.h"

namespace bitpress::tasks {
namespace fs = std::filesystem;

OptimizeReport OptimizeForMachine(const OptimizeOptions& options) {
  std::error_code error;
  if (fs::equivalent(options.model, options.output, error)) {
    Fail(ErrorCode::kInvalidArgument,
         "the output is the model itself, '{}': keep it, the optimized one runs only on machines "
         "like this",
         options.model.string());
  }
  CheckWritable(options.output);
  runtime::LoadPortable(options.model);
  OptimizeReport report;
  report.machine = runtime::DescribeMachine();
  report.input_bytes = graph::StoredBytes(options.model);
  graph::Model model =
      runtime::LoadOptimized(options.model, [](const fs::path& from, const fs::path& to) {
        runtime::OptimizeAs(runtime::Optimization::kAll, from, to);
      });
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    report.reorders = deploy::RemoveReorders(model);
    deploy::NameReorders(model);
    graph::RemoveUnused(model);
    model.SetMetadata(runtime::kMachineMetadata, report.machine);
    model.Check();
  });
  report.output_bytes = model.Save(options.output);
  return report;
}

}  // namespace bitpress::tasks
