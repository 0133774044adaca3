// The files of a model on disk and their size, for reports and for replacing a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace bitpress::graph {

// Returns the size of the model file and of every external data file it names, each counted once
// and whole. Throws Error(kIo) if a file is missing, Error(kInvalidModel) if the model cannot be
// parsed.
uint64_t StoredBytes(const std::filesystem::path& path);

// Returns the locations of external data that the model names, as they stand in the file. There are
// none if the file does not exist, is no model, or is so large that it holds its data itself.
std::set<std::string> ExternalLocations(const std::filesystem::path& path);

}  // namespace bitpress::graph
