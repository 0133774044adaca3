#include "tasks/task_hints.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "data/labels.h"

namespace bitpress::tasks {
namespace {

std::vector<std::string> CharactersOf(const graph::Model& model) {
  const std::map<std::string, std::string> metadata = model.Metadata();
  const auto found = metadata.find("character");
  if (found == metadata.end()) return {};
  std::vector<std::string> characters = Split(found->second, '\n');
  while (!characters.empty() && characters.back().empty()) characters.pop_back();
  return characters;
}

// Returns how photos were fitted, in the words of the task `detection`.
std::string FitWord(const std::optional<data::ImageSpec>& image) {
  if (!image || image->fit == data::ImageSpec::Fit::kShorter) return "";
  return image->fit == data::ImageSpec::Fit::kLetterbox ? "letterbox" : "stretch";
}

// Returns the texts of samples, by the names of their files. The table lies beside these.
std::map<std::string, std::string> TextsOf(const std::filesystem::path& folder) {
  const std::filesystem::path table = folder / data::kTextsOfSamples;
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_regular_file(table, ignored)) return {};
  std::map<std::string, std::string> texts;
  for (data::NamedField& row : data::LoadColumn(table, "text")) {
    texts.emplace(std::move(row.file), std::move(row.text));
  }
  return texts;
}

}  // namespace

evaluate::TaskHints HintsOf(const graph::Model& model, const data::SourceOptions& source) {
  return {CharactersOf(model), TextsOf(source.folder), FitWord(source.image)};
}

}  // namespace bitpress::tasks
