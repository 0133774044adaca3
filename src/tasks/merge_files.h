// Adding up files of what was counted on parts of the samples.
#pragma once

#include <filesystem>
#include <limits>
#include <span>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "data/failures.h"

namespace bitpress::tasks {

// The number of samples that may have been left out if nobody says one.
inline constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

// Returns the sum of the files, one of which is in memory at a time, and writes it. `load` reads a
// file, `to_bytes` makes one. `kind` is for messages: "calibration files". Throws Error naming the
// file that does not fit, or the samples that were left out if they are more than `most_failures`.
template <typename Load, typename ToBytes>
auto MergeFiles(std::span<const std::filesystem::path> paths, const std::filesystem::path& output,
                std::string_view kind, size_t most_failures, const Load& load,
                const ToBytes& to_bytes) {
  if (paths.empty()) Fail(ErrorCode::kInvalidArgument, "there are no {} to merge", kind);
  AtomicFile file(output);
  auto sum = load(paths[0]);
  for (const std::filesystem::path& path : paths.subspan(1)) {
    const auto part = load(path);
    WithContext(fmt::format("'{}' and '{}'", PathText(paths[0]), PathText(path)),
                [&] { sum.Merge(part); });
  }
  data::CheckLeftOut(sum.left_out, most_failures);
  file.Write(to_bytes(sum));
  file.Commit();
  return sum;
}

}  // namespace bitpress::tasks
