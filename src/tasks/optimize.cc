#include "tasks/optimize.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/paths.h"
#include "deploy/check_process.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "runtime/machine.h"
#include "runtime/optimize.h"
#include "tasks/passes.h"
#include "tasks/write_model.h"

namespace bitpress::tasks {
namespace fs = std::filesystem;

OptimizeReport OptimizeForMachine(const OptimizeOptions& options) {
  std::error_code error;
  if (fs::equivalent(options.model, options.output, error)) {
    Fail(ErrorCode::kInvalidArgument,
         "the output is the model itself, '{}': keep it, the optimized one runs only on machines "
         "like this",
         PathText(options.model));
  }
  CheckPasses(options.disabled_passes);
  CheckWritable(options.output);
  runtime::LoadPortable(options.model);
  OptimizeReport report;
  report.machine = runtime::DescribeMachine();
  report.input_bytes = graph::StoredBytes(options.model);
  if (options.is_checked) {
    // The optimizer would crash here as it does there.
    const deploy::CheckOutcome outcome = deploy::CheckInSubprocess(
        {.model = options.model, .num_bytes = report.input_bytes, .is_described = false});
    if (outcome.report && !outcome.report->crash.empty()) {
      Fail(ErrorCode::kRuntime, "'{}' crashes ONNX Runtime: {}", PathText(options.model),
           outcome.report->error);
    }
  }
  graph::Model model =
      runtime::LoadOptimized(options.model, [](const fs::path& from, const fs::path& to) {
        runtime::OptimizeAs(runtime::Optimization::kAll, from, to);
      });
  WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    if (!options.disabled_passes.contains(kRemoveReordersPass)) {
      graph::RunPass(model, kRemoveReordersPass, [&](graph::Model& changed) {
        report.reorders = deploy::RemoveReorders(changed);
        deploy::NameReorders(changed);
        return graph::RemoveUnused(changed) > 0 || report.reorders.num_removed > 0;
      });
    }
    model.SetMetadata(runtime::kMachineMetadata, report.machine);
    WrittenModel written = WriteModel(
        std::move(model),
        {.output = options.output, .given = options.model, .is_checked = options.is_checked});
    report.output_bytes = written.num_bytes;
    report.why_not_checked = std::move(written.why_not_checked);
  });
  return report;
}

nlohmann::ordered_json ToJson(const OptimizeReport& report) {
  return VersionedJson("bitpress_optimization", report);
}

}  // namespace bitpress::tasks
