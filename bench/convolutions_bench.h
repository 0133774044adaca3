// The part of the bench of products that measures convolutions straight from packed blocks.
#pragma once

#include <cstddef>
#include <string>

#include "base/thread_pool.h"

namespace bitpress {

// Prints the times of layers of EfficientNet-Lite0 and ResNet-50 with one image, in several formats
// beside ONNX Runtime's Conv of floats in the same run. `only` is a format, or "" for all; weight
// and input have it, and quantizing the input is counted.
void RaceConvolutions(size_t threads, const std::string& only, double seconds, ThreadPool& pool);

}  // namespace bitpress
