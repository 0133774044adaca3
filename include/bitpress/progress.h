// The callback by which long work reports its progress.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace bitpress {

// A function that takes the stage ("quantize weights"), the number of steps done and the number of
// all steps (0 if unknown). One thread at a time calls it. It may throw to stop the work: the
// reporting function then leaves with that exception, unchanged, and no half-written file stays.
// An exception that is no Error (error.h) is never taken for a fault of the model or of a
// configuration.
using ProgressSink = std::function<void(std::string_view stage, size_t done, size_t total)>;

}  // namespace bitpress
