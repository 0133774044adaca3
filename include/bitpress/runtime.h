// ONNX Runtime, which runs every model, and our operators for it.
#pragma once

#include <filesystem>
#include <string>

#include "bitpress/export.h"

namespace bitpress {

// Makes the process use this ONNX Runtime library and no other. By default libonnxruntime.so.1 is
// looked for beside the running program and this library, in ../lib of both, and where the system
// looks. Throws Error(kInvalidArgument) if another one is open already.
BITPRESS_API void UseOnnxRuntime(const std::filesystem::path& library);

// Opens ONNX Runtime and returns its version. Throws Error(kRuntime) with all places tried if there
// is none.
BITPRESS_API std::string OnnxRuntimeVersion();

// Returns the file of our operators for SessionOptions::RegisterCustomOpsLibrary; empty if it lies
// neither beside the running program nor beside this library.
BITPRESS_API std::filesystem::path OperatorLibraryPath();

// Makes all later work of the process know the operators of this library, which exports
// RegisterCustomOps, so that models with them run. Its code runs in this process and in those that
// check models. Throws Error(kIo) if there is no such file.
BITPRESS_API void UseOperatorLibrary(const std::filesystem::path& library);

}  // namespace bitpress
