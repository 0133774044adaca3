#include "plan/name_pattern.h"

#include <utility>

#include "base/error.h"

namespace bitpress::plan {
namespace {

// Backtracking takes up to 160 bytes of stack for each character of the name and each state of the
// pattern, of which there are about as many as characters: 2.6 MB of the usual 8 MB.
constexpr size_t kMostSteps = 1 << 14;

std::regex Compile(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is not a regular expression: {}", pattern,
         error.what());
  }
}

// Compiles a pattern for the search that follows all ways through it at once. That is slower, and
// its stack does not grow with the name. Only libstdc++ has it.
std::optional<std::regex> CompileBreadthFirst([[maybe_unused]] const std::string& pattern) {
#ifdef __GLIBCXX__
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error&) {
    return std::nullopt;  // a reference to a group
  }
#else
  return std::nullopt;
#endif
}

}  // namespace

NamePattern::NamePattern(std::string pattern)
    : pattern_(std::move(pattern)),
      backtracking_(Compile(pattern_)),
      breadth_first_(CompileBreadthFirst(pattern_)) {}

bool NamePattern::Matches(const std::string& name) const {
  if (name.size() <= kMostSteps / (pattern_.size() + 1)) {
    return std::regex_match(name, backtracking_);
  }
  if (breadth_first_) return std::regex_match(name, *breadth_first_);
  constexpr size_t kShown = 60;
  Fail(ErrorCode::kInvalidArgument,
       "the name '{}...' has {} characters, too many for the regular expression '{}'; write one "
       "without references to groups, or list the names themselves",
       name.substr(0, kShown), name.size(), pattern_);
}

}  // namespace bitpress::plan
