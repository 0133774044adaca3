// A measure of the caller's own. Only for the corridor and its callers.
#pragma once

#include <filesystem>
#include <functional>

namespace bitpress::tasks {

// Gives a number for a model file, better the larger it is. The model runs without our operator
// library, too; it and what lies beside it are gone after the call.
using ModelMetric = std::function<double(const std::filesystem::path& model)>;

// What `metric` gives for `model`. Throws Error(kInvalidArgument) if that is no finite number.
double MeasureOwn(const ModelMetric& metric, const std::filesystem::path& model);

}  // namespace bitpress::tasks
