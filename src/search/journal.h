// The journal of a sensitivity or a search: a file with all measurements so far, so that a run that
// was stopped goes on where it stopped. Each record is a line of JSON. Not thread-safe.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace bitpress::search {

// One journal.
class MeasurementJournal {
 public:
  // Reads the records of a file whose first line is `key`. Begins the file anew if that is another
  // key. A line that is no record ends the reading, because the rest was cut off. If the path is
  // empty, nothing is read or written. Throws Error(kIo) if the file cannot be written.
  MeasurementJournal(std::filesystem::path path, const std::string& key);

  // Returns the records that were in the file, by name.
  const std::map<std::string, nlohmann::ordered_json>& found() const { return found_; }
  // Writes `record`, whose numbers are finite or written by json_numbers.h. Throws Error(kIo).
  void Add(const std::string& name, const nlohmann::ordered_json& record);

 private:
  std::filesystem::path path_;
  std::map<std::string, nlohmann::ordered_json> found_;
  std::ofstream file_;
};

}  // namespace bitpress::search
