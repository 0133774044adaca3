// Reads ONNX Runtime's profile of the runs of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bitpress::deploy {

// One operator in one run. An operator in a body runs as often as the body does.
struct OperatorRun {
  std::string node;             // its name
  std::vector<int64_t> input;   // the shape of its first input, empty if there is none
  std::vector<int64_t> output;  // the shape of its first output, likewise
  double seconds = 0;
};

// Returns the operators of each run, in the order of the file. `profile` is what
// Session::EndProfile gave. Throws Error(kRuntime) if it cannot be read.
std::vector<std::vector<OperatorRun>> ReadProfile(const std::filesystem::path& profile);

}  // namespace bitpress::deploy
