// What was measured so far, in a file: a line of JSON for each record, so that a run that was
// stopped goes on where it stopped.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace bitpress::search {

class MeasurementJournal {
 public:
  // Reads the records of a file whose first line is `key`; begins it anew if it is another one. A
  // line that is no record ends the reading: the rest was cut off. An empty path: nothing is read
  // or written. Throws Error(kIo) if the file cannot be written.
  MeasurementJournal(std::filesystem::path path, const std::string& key);

  const std::map<std::string, nlohmann::ordered_json>& found() const { return found_; }
  // Keeps `record`, whose numbers are finite or written by json_numbers.h. Throws Error(kIo).
  void Add(const std::string& name, const nlohmann::ordered_json& record);

 private:
  std::filesystem::path path_;
  std::map<std::string, nlohmann::ordered_json> found_;
  std::ofstream file_;
};

}  // namespace bitpress::search
