// Models that were optimized for one kind of machine (tasks/optimize.h): which kind this one is,
// and loading a model file with the check that it fits.
#pragma once

#include <filesystem>
#include <string>

#include "graph/model.h"

namespace bitpress::runtime {

// Metadata of a model that was optimized for a machine: the machine, as DescribeMachine says it.
inline constexpr const char* kMachineMetadata = "bitpress.optimized_for";

// Returns what the layout of an optimized model depends on: "ONNX Runtime 1.31.1, AVX-512".
std::string DescribeMachine();

// Loads a user's model that every machine can run. Throws Error(kInvalidArgument) where it was
// optimized for a machine already, and Error(kInvalidModel) as graph::RefuseInternalOperators.
graph::Model LoadPortable(const std::filesystem::path& path);

// Loads a model that this machine can run. Throws Error(kInvalidArgument) where it was optimized
// for another kind: blocks of another width would be read as if they had this machine's.
graph::Model LoadToRun(const std::filesystem::path& path);

}  // namespace bitpress::runtime
