// The table of samples and classes that a user gives: a CSV file with the columns "file" and
// "class".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::data {

// The table of the texts from which samples were made, in their folder. It has the columns "file"
// and "text", and reports call samples by these texts.
inline constexpr const char* kTextsOfSamples = "texts.csv";

struct LabelledFile {
  std::string file;
  int64_t label = 0;
  size_t line = 0;  // line in the CSV, from 1
};

// A field of another column, as text.
struct NamedField {
  std::string file;
  std::string text;
  size_t line = 0;
};

// Returns the fields of `column`, in the file's order. Fields are comma-separated and may be quoted
// ("a ""b"", c"), lines may end in CRLF, and empty lines are skipped. `what` names the table in
// messages. Throws Error(kInvalidArgument) with the line if a column is missing, or a file is
// listed twice.
std::vector<NamedField> ParseColumn(std::string_view text, std::string_view what,
                                    std::string_view column);
// Parses a file. Throws as ParseColumn, and Error(kIo).
std::vector<NamedField> LoadColumn(const std::filesystem::path& csv, std::string_view column);

// Returns the column "class". Throws as ParseColumn, and if a class is no whole number from 0 up.
std::vector<LabelledFile> ParseLabels(std::string_view text, std::string_view what);

// Parses a file. Throws as ParseLabels, and Error(kIo).
std::vector<LabelledFile> LoadLabels(const std::filesystem::path& csv);

}  // namespace bitpress::data
