#include "tasks/check.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"
#include "ops/batch.h"
#include "tasks/run.h"

namespace bitpress::tasks {

deploy::TargetReport CheckTarget(const CheckOptions& options) {
  const graph::Model model = graph::Model::Load(options.model);
  std::vector<Tensor> sample;
  if (options.samples.is_given() && !model.InputNames().empty()) {
    data::SourceOptions source = SourceFor(model, {.samples = options.samples});
    source.read_ahead = false;
    source.limit = std::max<size_t>(1, ops::FixedBatchOf(model));
    std::optional<data::Batch> batch = data::OpenSource(source)->Next(source.limit);
    if (batch) sample = std::move(batch->inputs);
  }
  return deploy::CheckTarget(options.model, sample);
}

}  // namespace bitpress::tasks
