#include "plan/name_pattern.h"

#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace bitpress::plan {
namespace {

// Backtracking of libstdc++ takes up to 160 bytes of stack for each character of the name and each
// state of the pattern, of which there are about as many as characters: 2.6 MB of the usual 8 MB.
// libc++ keeps its stack on the heap.
#ifdef __GLIBCXX__
constexpr size_t kMostSteps = 1 << 14;
#else
constexpr size_t kMostSteps = std::numeric_limits<size_t>::max();
#endif

std::regex Compile(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is not a regular expression: {}", pattern,
         error.what());
  }
}

// Compiles a pattern for the search that follows all ways through it at once. That is slower, and
// its stack does not grow with the name. Only libstdc++ has it, and needs it.
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

// A walk over a pattern that knows which of its characters stand for themselves.
class PatternWalk {
 public:
  explicit PatternWalk(std::string_view pattern) : pattern_(pattern) {}

  bool is_done() const { return at_ >= pattern_.size(); }
  // Returns whether `text` comes next and is no part of a class, such as "[(?!]".
  bool Sees(std::string_view text) const {
    return !is_in_class_ && pattern_.substr(at_).starts_with(text);
  }
  // Returns the next character, with the one that it escapes.
  std::string_view Take() {
    const std::string_view taken = pattern_.substr(at_, pattern_[at_] == '\\' ? 2 : 1);
    if (taken == "[") is_in_class_ = true;
    if (taken == "]") is_in_class_ = false;
    at_ += taken.size();
    return taken;
  }

 private:
  std::string_view pattern_;
  size_t at_ = 0;
  bool is_in_class_ = false;
};

// Returns the pattern with nothing in place of each negative lookahead. Groups keep their numbers.
// REQUIRES: it is a regular expression.
std::string WithoutNegativeLookaheads(std::string_view pattern) {
  std::string result;
  PatternWalk walk(pattern);
  while (!walk.is_done()) {
    if (!walk.Sees("(?!")) {
      result += walk.Take();
      continue;
    }
    result += "(?:)";
    for (size_t depth = 0; !walk.is_done();) {
      if (walk.Sees("(")) {
        if (!walk.Sees("(?")) result += "()";
        ++depth;
      } else if (walk.Sees(")")) {
        --depth;
      }
      walk.Take();
      if (depth == 0) break;
    }
  }
  return result;
}

}  // namespace

NamePattern::NamePattern(std::string pattern)
    : pattern_(std::move(pattern)),
      backtracking_(Compile(pattern_)),
      breadth_first_(CompileBreadthFirst(pattern_)) {
  std::string rest = WithoutNegativeLookaheads(pattern_);
  if (rest != pattern_) without_exclusions_ = std::make_shared<NamePattern>(std::move(rest));
}

bool NamePattern::MeansOneOf(const std::vector<std::string>& names) const {
  bool fits_one = false;
  for (const std::string& name : names) {
    if (Matches(name)) {
      fits_one = true;
    } else if (without_exclusions_ && without_exclusions_->Matches(name)) {
      return false;
    }
  }
  return fits_one;
}

bool NamePattern::Matches(const std::string& name) const {
  if (name.size() <= kMostSteps / (pattern_.size() + 1)) {
    try {
      return std::regex_match(name, backtracking_);
    } catch (const std::regex_error&) {
      // libc++ counts the steps.
    }
  } else if (breadth_first_) {
    return std::regex_match(name, *breadth_first_);
  }
  constexpr size_t kShown = 60;
  Fail(ErrorCode::kInvalidArgument,
       "the name '{}...' has {} characters, too many for the regular expression '{}'; write one "
       "without references to groups, or list the names themselves",
       name.substr(0, kShown), name.size(), pattern_);
}

}  // namespace bitpress::plan
