#include "json_option.h"

#include <fmt/format.h>

#include "base/paths.h"
#include "command.h"
#include "tasks/json_file.h"

namespace bitpress::apps {
namespace {

constexpr const char* kStandardOutput = "-";

}  // namespace

void JsonOption::Add(CLI::App& command, std::string_view what) {
  command
      .add_option(
          "--json", path_,
          fmt::format("also write {} to this JSON file; -: print it, instead of the text", what))
      ->type_name("FILE");
}

std::filesystem::path JsonOption::file() const {
  return PathOf(path_ == kStandardOutput ? "" : path_);
}

void JsonOption::Print(const std::string& text,
                       const std::function<nlohmann::ordered_json()>& json) const {
  apps::Print(path_ == kStandardOutput ? tasks::JsonText(json()) : text);
}

}  // namespace bitpress::apps
