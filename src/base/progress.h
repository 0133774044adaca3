// Progress of long work, as a callback: the library reports, the command line draws.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace bitpress {

// Called with the stage ("quantize weights"), the steps done and the steps in all (0: unknown),
// from one thread at a time. It may throw to stop the work: what reports then leaves with an
// exception (that one, or an Error made of it), and no file that it was writing is left behind.
using ProgressSink = std::function<void(std::string_view stage, size_t done, size_t total)>;

}  // namespace bitpress
