#include "tasks/json_file.h"

#include <nlohmann/json.hpp>

namespace bitpress::tasks {

JsonFile::JsonFile(const std::filesystem::path& path) {
  if (!path.empty()) file_.emplace(path);
}

void JsonFile::Write(const nlohmann::ordered_json& json) {
  if (!file_) return;
  file_->Write(JsonText(json));
  file_->Commit();
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace bitpress::tasks
