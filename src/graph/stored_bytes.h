// Which files a model takes, and how much disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace bitpress::graph {

// Size of the model file and of every external data file it names, each counted once and whole.
// Throws Error(kIo) if a file is missing, Error(kInvalidModel) if the model cannot be parsed.
uint64_t StoredBytes(const std::filesystem::path& path);

// The locations of external data that the model names, as they stand in the file. None if it does
// not exist, is no model, or is so large that it holds its data itself.
std::set<std::string> ExternalLocations(const std::filesystem::path& path);

}  // namespace bitpress::graph
