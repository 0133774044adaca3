// How much disk a model takes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace bitpress::graph {

// Size of the model file and of every external data file it names, each counted once and whole.
// Throws Error(kIo) if a file is missing, Error(kInvalidModel) if the model cannot be parsed.
uint64_t StoredBytes(const std::filesystem::path& path);

}  // namespace bitpress::graph
