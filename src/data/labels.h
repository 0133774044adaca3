// The table of samples and classes that a user gives: a CSV file with the columns "file" and
// "class".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::data {

struct LabelledFile {
  std::string file;
  int64_t label = 0;
  size_t line = 0;  // line in the CSV, from 1
};

// Returns the rows in the file's order. Fields are comma-separated and may be quoted ("a ""b"",
// c"), lines may end in CRLF, and empty lines are skipped. `what` names the table in messages.
// Throws Error(kInvalidArgument) with the line if a column is missing, a class is no whole number
// from 0 up, or a file is listed twice.
std::vector<LabelledFile> ParseLabels(std::string_view text, std::string_view what);

// Parses a file. Throws as ParseLabels, and Error(kIo).
std::vector<LabelledFile> LoadLabels(const std::filesystem::path& csv);

}  // namespace bitpress::data
