// The files of a model on disk and their size, for reports and for replacing a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "graph/model.h"

namespace bitpress::graph {

// Returns the size of the model file and of every external data file it names, each counted once
// and whole. Throws Error(kIo) if a file is missing, Error(kInvalidModel) if the model cannot be
// parsed.
uint64_t StoredBytes(const std::filesystem::path& path);

// The bytes of a model by what they hold. The rest of a file is nodes, descriptions of values, and
// what external data need for their alignment.
struct StoredParts {
  uint64_t constants = 0;  // initializers and Constant nodes
  uint64_t codes = 0;      // of these, initializers of at most 8 bits an element
  uint64_t functions = 0;
  uint64_t metadata = 0;
  uint64_t all = 0;  // with the rest, but without alignment
};
StoredParts MeasureParts(const Model& model);

// Returns the locations of external data that the model names, as they stand in the file. There are
// none if the file does not exist, is no model, or is so large that it holds its data itself.
std::set<std::string> ExternalLocations(const std::filesystem::path& path);

}  // namespace bitpress::graph
