// The files of a folder that are no samples. Nothing fails on such files, so that a user who
// expects them to count has to be told.
#pragma once

#include <filesystem>
#include <string>

namespace bitpress::data {

// Returns "folder 'photos': 3 of 12 files are left out, which are no samples: 2 .gif, 1 .txt"; ""
// if nothing is left out, or the folder cannot be read. Hidden files do not count.
std::string DescribeFilesLeftOut(const std::filesystem::path& folder);

}  // namespace bitpress::data
