// CLI11, with paths that are UTF-8 on the command line of every system. It stands for <CLI/CLI.hpp>
// in all files.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "base/paths.h"

namespace CLI::detail {

template <>
inline bool lexical_cast<std::filesystem::path>(const std::string& input,
                                                std::filesystem::path& output) {
  output = bitpress::PathOf(input);
  return true;
}

}  // namespace CLI::detail
