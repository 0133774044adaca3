// A regular expression for the names of nodes or values, as rules and exclusions have them:
// "conv_[0-9]+". It is matched against whole names, in the grammar of ECMAScript. Names come from
// files of strangers, so their length must not decide how deep the stack gets. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace bitpress::plan {

// One regular expression.
class NamePattern {
 public:
  // Throws Error(kInvalidArgument) if `pattern` is not a regular expression.
  explicit NamePattern(std::string pattern);

  // Returns whether the whole of `name` fits. Throws Error(kInvalidArgument) if the pattern refers
  // back to one of its groups, such as "(.*)_\1", and the name is too long for that.
  bool Matches(const std::string& name) const;

  // Returns whether the pattern means a thing that has all of these names: one of them fits, and
  // none is excluded. A name is excluded if it fits but for a negative lookahead: "(?!head$).*"
  // excludes "head", and "conv(?!_1$).*" excludes "conv_1", but not "add". Throws as Matches.
  bool MeansOneOf(const std::vector<std::string>& names) const;

 private:
  std::string pattern_;
  std::shared_ptr<const NamePattern> without_exclusions_;  // null if nothing is excluded
  std::regex backtracking_;
  std::optional<std::regex> breadth_first_;  // absent if the pattern refers back to a group
};

}  // namespace bitpress::plan
