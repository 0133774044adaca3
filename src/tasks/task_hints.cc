#include "tasks/task_hints.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"

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

}  // namespace

evaluate::TaskHints HintsOf(const graph::Model& model, const data::SourceOptions& source) {
  return {CharactersOf(model), FitWord(source.image)};
}

}  // namespace bitpress::tasks
