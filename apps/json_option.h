// The option --json, with which a command reports to programs as well as to people.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli.h"

namespace bitpress::apps {

class JsonOption {
 public:
  // Adds the option; `what` is written: "the report".
  void Add(CLI::App& command, std::string_view what = "the report");

  // Returns the file that is wanted; empty if there is none, and for standard output. Hand it to a
  // task that writes its report itself, or to JsonFile.
  std::filesystem::path file() const;

  // Prints the text, or the JSON if standard output is to have that.
  void Print(const std::string& text, const std::function<nlohmann::ordered_json()>& json) const;

 private:
  std::string path_;
};

}  // namespace bitpress::apps
