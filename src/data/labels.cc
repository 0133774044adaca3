#include "data/labels.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"

namespace bitpress::data {
namespace {

// A reader of records, one after another. A quoted field may hold commas, quotes and line breaks.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view what) : text_(text), what_(what) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // byte order mark
  }

  // Returns the fields of the next record that is not an empty line; nothing at the end.
  std::optional<std::vector<std::string>> Next() {
    while (at_ < text_.size()) {
      line_ = next_line_;
      std::vector<std::string> fields = ReadRecord();
      if (fields.size() > 1 || !Trim(fields[0]).empty()) return fields;
    }
    return std::nullopt;
  }

  size_t line() const { return line_; }  // line in which the last record began

 private:
  std::vector<std::string> ReadRecord() {
    std::vector<std::string> fields(1);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && fields.back().empty()) {
        ReadQuoted(fields.back());
      } else if (c == ',') {
        fields.emplace_back();
      } else if (c == '\n') {
        ++next_line_;
        break;
      } else {
        fields.back() += c;
      }
    }
    if (fields.back().ends_with('\r')) fields.back().pop_back();
    return fields;
  }

  void ReadQuoted(std::string& field) {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++next_line_;
      if (c != '"') {
        field += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        field += '"';
        ++at_;
      } else {
        return;
      }
    }
    Fail(ErrorCode::kInvalidArgument, "{}: line {}: a quoted field does not end", what_, line_);
  }

  std::string_view text_;
  std::string_view what_;
  size_t at_ = 0;
  size_t line_ = 0;
  size_t next_line_ = 1;
};

// `wanted` is the column beside "file" that an example in the message has.
size_t FindColumn(const std::vector<std::string>& header, std::string_view name,
                  std::string_view wanted, std::string_view what) {
  for (size_t i = 0; i < header.size(); ++i) {
    if (ToLower(Trim(header[i])) == name) return i;
  }
  Fail(ErrorCode::kInvalidArgument,
       "{}: the first line has no column '{}' (columns: {}); expected a header such as file,{}",
       what, name, Join(header, ", "), wanted);
}

int64_t ParseClass(std::string_view text, std::string_view what, size_t line) {
  const std::string_view digits = Trim(text);
  int64_t label = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  if (error != std::errc() || end != digits.data() + digits.size() || label < 0) {
    Fail(ErrorCode::kInvalidArgument,
         "{}: line {}: class '{}' is not a class index (a whole number from 0 up)", what, line,
         text);
  }
  return label;
}

}  // namespace

std::vector<NamedField> ParseColumn(std::string_view text, std::string_view what,
                                    std::string_view column) {
  CsvReader reader(text, what);
  const std::optional<std::vector<std::string>> header = reader.Next();
  if (!header) {
    Fail(ErrorCode::kInvalidArgument, "{}: the table is empty, expected a header file,{}", what,
         column);
  }
  const size_t file_column = FindColumn(*header, "file", column, what);
  const size_t text_column = FindColumn(*header, column, column, what);
  std::vector<NamedField> rows;
  std::map<std::string, size_t> lines;
  while (std::optional<std::vector<std::string>> fields = reader.Next()) {
    if (fields->size() <= std::max(file_column, text_column)) {
      Fail(ErrorCode::kInvalidArgument, "{}: line {} has {} columns, the header has {}", what,
           reader.line(), fields->size(), header->size());
    }
    NamedField row;
    row.file = std::string(Trim((*fields)[file_column]));
    row.line = reader.line();
    if (row.file.empty()) {
      Fail(ErrorCode::kInvalidArgument, "{}: line {}: the file name is empty", what, row.line);
    }
    row.text = std::move((*fields)[text_column]);
    const auto [other, is_new] = lines.emplace(row.file, row.line);
    if (!is_new) {
      Fail(ErrorCode::kInvalidArgument, "{}: line {}: '{}' is listed already in line {}", what,
           row.line, row.file, other->second);
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    Fail(ErrorCode::kInvalidArgument, "{}: the table lists no files", what);
  }
  return rows;
}

std::vector<NamedField> LoadColumn(const std::filesystem::path& csv, std::string_view column) {
  return ParseColumn(ReadFile(csv), PathText(csv), column);
}

std::vector<LabelledFile> ParseLabels(std::string_view text, std::string_view what) {
  std::vector<LabelledFile> rows;
  for (NamedField& field : ParseColumn(text, what, "class")) {
    const int64_t label = ParseClass(field.text, what, field.line);
    rows.push_back({std::move(field.file), label, field.line});
  }
  return rows;
}

std::vector<LabelledFile> LoadLabels(const std::filesystem::path& csv) {
  return ParseLabels(ReadFile(csv), PathText(csv));
}

}  // namespace bitpress::data
