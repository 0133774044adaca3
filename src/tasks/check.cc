#include "tasks/check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"
#include "tasks/samples.h"

namespace bitpress::tasks {

deploy::TargetReport CheckTarget(const CheckOptions& options) {
  const graph::Model model = graph::Model::Load(options.model);
  std::vector<Tensor> sample;
  if (options.samples.is_given() && !model.InputNames().empty()) {
    data::SourceOptions source = SourceFor(model, options.samples);
    source.read_ahead = false;
    // Models whose first dimension is fixed get as many samples.
    const graph::ValueInfo input = model.InfoOf(source.input_names.front());
    const int64_t fixed = input.shape.empty() ? 1 : std::max<int64_t>(1, input.shape[0].value);
    source.limit = static_cast<size_t>(fixed);
    std::optional<data::Batch> batch = data::OpenSource(source)->Next(source.limit);
    if (batch) sample = std::move(batch->inputs);
  }
  return deploy::CheckTarget(options.model, sample);
}

}  // namespace bitpress::tasks
