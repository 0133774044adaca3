// The table of samples and classes: a CSV file with the columns "file" and "class".
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
  size_t line = 0;  // in the CSV, from 1
};

// Rows in the file's order. Comma-separated, quoted fields ("a ""b"", c") and CRLF are understood,
// empty lines skipped. `what` names the table in messages. Throws Error(kInvalidArgument) with the
// line: a column is missing, a class is no whole number from 0 up, a file is listed twice.
std::vector<LabelledFile> ParseLabels(std::string_view text, std::string_view what);

std::vector<LabelledFile> LoadLabels(const std::filesystem::path& csv);

}  // namespace bitpress::data
