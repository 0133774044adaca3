// The caller's own measure of a model's quality. Use it if accuracy is none of the measures that
// Bitpress knows. Only src/tasks and its callers use this header.
#pragma once

#include <filesystem>
#include <functional>

namespace bitpress::tasks {

// A function that gives a number for a model file; a larger number is better. The model runs
// without our operator library, too. The model and the files beside it are removed after the call.
using ModelMetric = std::function<double(const std::filesystem::path& model)>;

}  // namespace bitpress::tasks
