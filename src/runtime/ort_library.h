// The ONNX Runtime library, opened by dlopen at first use and kept open until the program ends. A
// program linked against one release of it would refuse every other one, so nothing here is linked.
//
// The library is searched in this order: the path given by SetOrtLibraryPath (then nothing else),
// libonnxruntime.so.1 beside the running program or this code's own library and in ../lib of them,
// the path known at build time, the system's search path. Opening it switches ONNX Runtime's usage
// statistics off. For that ONNX Runtime sees ORT_DISABLE_TELEMETRY=1 while it starts, if it is not
// set; the environment of the process stays as it is. Any thread may call these functions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bitpress::runtime {

// Makes the process use this library and no other. Throws Error(kInvalidArgument) if another one is
// open already.
void SetOrtLibraryPath(const std::filesystem::path& path);

// Opens the library and returns its version, such as "1.31.1". Throws Error(kRuntime) with all
// places tried if there is none, or with both versions if it is too old.
std::string OrtVersion();

// Opens the library and returns its file. Throws as OrtVersion.
std::filesystem::path OrtLibraryPath();

// Returns the file of the library that is open, or that SetOrtLibraryPath named; empty if neither.
// Opens nothing.
std::filesystem::path ChosenOrtLibrary();

// Returns the path of the program `bitpress` beside this code's own library or beside the running
// program, or in ../bin of them; empty if it is nowhere. It may be the running program.
std::filesystem::path FindProgram();

// Returns the name of the operator library's file: "libbitpress_ops.so" on Linux.
std::string OperatorLibraryName();

// Returns the path of the operator library beside the running program, in ../lib of it or in the
// folder for libraries that the build was configured with, or the same from this code's own
// library; empty if it is nowhere.
std::filesystem::path FindOperatorLibrary();

// Makes all later sessions of the process know the operators of a library of the user, too. Its
// code runs in this process, so nothing but a user's word may name it. Throws Error(kIo) if there
// is no such file.
void UseOperatorLibrary(const std::filesystem::path& path);

// Returns the libraries that UseOperatorLibrary named, each once, in that order.
std::vector<std::filesystem::path> UsedOperatorLibraries();

}  // namespace bitpress::runtime
