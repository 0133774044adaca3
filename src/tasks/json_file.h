// The JSON file of a report. Create it before the work, so that a report that cannot be written
// costs none. For example:
//
//   JsonFile file(options.report);
//   const Report report = Work();
//   file.Write(ToJson(report));
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/atomic_file.h"

namespace bitpress::tasks {

class JsonFile {
 public:
  // Creates the file; an empty path means that none is wanted. Throws Error(kIo).
  explicit JsonFile(const std::filesystem::path& path);

  // Writes the file and puts it in place. Does nothing if none is wanted. Throws Error(kIo).
  void Write(const nlohmann::ordered_json& json);

 private:
  std::optional<AtomicFile> file_;
};

// Returns the text of such a file. Bytes that are no UTF-8, as names in a model may hold, become
// replacement characters.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace bitpress::tasks
