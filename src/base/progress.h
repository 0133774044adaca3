// Progress of long work, as a callback: the library reports, the command line draws.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace bitpress {

// Called with the stage ("quantize weights"), the steps done and the steps in all (0: unknown),
// from one thread at a time. It may throw to stop the work. What reports then leaves with that
// exception, unchanged, and no file that it was writing is left behind. An exception that is no
// Error (base/error.h) is never taken for a fault of the model or of a configuration.
using ProgressSink = std::function<void(std::string_view stage, size_t done, size_t total)>;

}  // namespace bitpress
