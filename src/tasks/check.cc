#include "tasks/check.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "deploy/check_process.h"
#include "graph/stored_bytes.h"
#include "ops/batch.h"
#include "tasks/run.h"

namespace bitpress::tasks {

std::vector<Tensor> FirstSample(const graph::Model& model, const data::SampleSpec& samples) {
  if (!samples.is_given() || model.InputNames().empty()) return {};
  data::SourceOptions source = SourceFor(model, {.samples = samples});
  source.read_ahead = false;
  source.limit = std::max<size_t>(1, ops::FixedBatchOf(model));
  std::optional<data::Batch> batch = data::OpenSource(source)->Next(source.limit);
  return batch ? std::move(batch->inputs) : std::vector<Tensor>();
}

deploy::TargetReport CheckTarget(const CheckOptions& options) {
  deploy::CheckRequest request{.model = options.model};
  {
    const graph::Model model = graph::Model::Load(options.model);
    request.sample = FirstSample(model, options.samples);
  }
  request.num_bytes = graph::StoredBytes(options.model);
  deploy::CheckOutcome outcome = deploy::CheckInProcess(request);
  if (!outcome.report) {
    Fail(ErrorCode::kRuntime, "'{}' was not checked: {}", options.model.string(), outcome.why_not);
  }
  return std::move(*outcome.report);
}

}  // namespace bitpress::tasks
