// The journal of a sensitivity or a search: a file with all measurements so far, so that a run that
// was stopped goes on where it stopped. Each record is a line of JSON. Not thread-safe.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"

namespace bitpress::search {

// Returns whether a file starts like a journal, and false if it cannot be read.
bool IsJournal(const std::filesystem::path& path);

// Writes a journal with the records of several, which are of one work: each record once, in the
// order of the files. Returns the number of records. Throws Error(kInvalidArgument) if a file is no
// journal or is of another work, and Error(kIo), naming the file.
size_t MergeJournals(std::span<const std::filesystem::path> paths,
                     const std::filesystem::path& output);

// One journal.
class MeasurementJournal {
 public:
  // Reads the records of a file whose first line is `key`. Begins the file anew if that is another
  // key. A line that is no record ends the reading, because the rest was cut off. If the path is
  // empty, nothing is read or written. Throws Error(kIo) if the file cannot be written.
  MeasurementJournal(std::filesystem::path path, const std::string& key);

  // Returns the records that were in the file, by name.
  const std::map<std::string, nlohmann::ordered_json>& found() const { return found_; }
  // Returns what `read` makes of the record of that name; nothing if there is no such record.
  // Throws Error(kInvalidArgument) with the file and the record if `read` throws an Error or a
  // nlohmann exception.
  template <typename Read>
  auto Find(const std::string& name, const Read& read) const
      -> std::optional<decltype(read(nlohmann::ordered_json()))> {
    const auto known = found_.find(name);
    if (known == found_.end()) return std::nullopt;
    try {
      return read(known->second);
    } catch (const Error& error) {
      FailDamaged(name, error.what());
    } catch (const nlohmann::json::exception& error) {
      FailDamaged(name, error.what());
    }
  }
  // Writes `record`, whose numbers are finite or written as text (base/fields_json.h). Throws
  // Error(kIo).
  void Add(const std::string& name, const nlohmann::ordered_json& record);

 private:
  [[noreturn]] void FailDamaged(const std::string& name, const std::string& why) const;

  std::filesystem::path path_;
  std::map<std::string, nlohmann::ordered_json> found_;
  std::ofstream file_;
};

}  // namespace bitpress::search
