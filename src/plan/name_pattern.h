// A regular expression for the names of nodes or values, as rules and exclusions have them:
// "conv_[0-9]+". It is matched against whole names, in the grammar of ECMAScript. Names come from
// files of strangers, so their length must not decide how deep the stack gets. Thread-safe.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>

namespace bitpress::plan {

// One regular expression.
class NamePattern {
 public:
  // Throws Error(kInvalidArgument) if `pattern` is not a regular expression.
  explicit NamePattern(std::string pattern);

  // Returns whether the whole of `name` fits. Throws Error(kInvalidArgument) if the pattern refers
  // back to one of its groups, such as "(.*)_\1", and the name is too long for that.
  bool Matches(const std::string& name) const;

  // Returns whether the pattern says which names it does not mean, as "(?!head$).*" does. Whoever
  // has such a name besides others is not meant either.
  bool is_negative() const { return pattern_.find("(?!") != std::string::npos; }

 private:
  std::string pattern_;
  std::regex backtracking_;
  std::optional<std::regex> breadth_first_;  // absent if the pattern refers back to a group
};

}  // namespace bitpress::plan
