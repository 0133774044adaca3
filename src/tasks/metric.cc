
#include "tasks/metric.h"

#include <cmath>

#include "base/error.h"

namespace bitpress::tasks {

double MeasureOwn(const ModelMetric& metric, const std::filesystem::path& model) {
  const double value = metric(model);
  if (!std::isfinite(value)) {
    Fail(ErrorCode::kInvalidArgument, "the metric gives {} for '{}', expected a finite number",
         value, model.string());
  }
  return value;
}

}  // namespace bitpress::tasks
