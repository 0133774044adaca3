#include "plan/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace bitpress::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string PatternErrorOf(const std::string& pattern, const std::string& name) {
  try {
    NamePattern(pattern).Matches(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(NamePattern, MatchesWholeNames) {
  EXPECT_TRUE(NamePattern("conv_[0-9]+").Matches("conv_12"));
  EXPECT_FALSE(NamePattern("conv_[0-9]+").Matches("conv_12_relu"));
  EXPECT_TRUE(NamePattern(".*relu").Matches("conv_12_relu"));
  EXPECT_TRUE(NamePattern("(.*)_\\1").Matches("a_a"));
  EXPECT_TRUE(NamePattern("").Matches(""));
}

TEST(NamePattern, AThingWithAnExcludedNameIsNotMeant) {
  const auto means = [](const char* pattern, const std::vector<std::string>& names) {
    return NamePattern(pattern).MeansOneOf(names);
  };
  EXPECT_TRUE(means("conv.*", {"conv1", "y"}));
  EXPECT_FALSE(means("conv.*", {"add", "y"}));
  EXPECT_FALSE(means("(?!head$).*", {"head", "y"}));
  EXPECT_TRUE(means("(?!head$).*", {"head2", "y"}));
  EXPECT_FALSE(means("((?!skip).)*", {"a_skip", "y"}));
  // Other names of what is meant need not fit.
  EXPECT_TRUE(means("conv(?!1).*", {"conv2", "y"}));
  EXPECT_FALSE(means("conv(?!1).*", {"conv1", "conv2"}));
  EXPECT_TRUE(means("a(?!b).*", {"ac", "x"}));
  EXPECT_FALSE(means("a(?!b).*", {"ab", "x"}));
  EXPECT_FALSE(means("a(?!b).*", {"c", "x"}));
  // Parentheses and references inside and behind a lookahead.
  EXPECT_FALSE(means("(?!((a)|[)(]|\\))$).*", {"a", "y"}));
  EXPECT_TRUE(means("(?!(x)$)(.)\\2", {"bb", "y"}));
  EXPECT_TRUE(means("[(?!]+", {"?!", "y"})) << "no lookahead";
}

TEST(NamePattern, WhatIsNoPatternIsAnError) {
  EXPECT_THAT(PatternErrorOf("conv_(", "conv"), HasSubstr("'conv_(' is not a regular expression"));
}

// Backtracking through these would overflow the stack.
TEST(NamePattern, LongNamesMatchToo) {
  std::string name(100'000, 'a');
  for (const char* pattern : {".*", "a*", "(a|b)*", "((((((((a))))))))*", "(b?c?d?e?f?a?)*"}) {
    EXPECT_TRUE(NamePattern(pattern).Matches(name)) << pattern;
    EXPECT_FALSE(NamePattern(pattern + std::string("!")).Matches(name)) << pattern;
  }
#ifdef __GLIBCXX__
  EXPECT_THAT(PatternErrorOf("(.*)_\\1", name),
              AllOf(HasSubstr("100000 characters"), HasSubstr("'(.*)_\\1'")));
  EXPECT_LT(PatternErrorOf("(.*)_\\1", name).size(), 400u);
#else
  EXPECT_FALSE(NamePattern("(.*)_\\1").Matches(name));
#endif
}

// Long patterns go the other way as well; both ways must agree.
TEST(NamePattern, BothWaysAgree) {
  std::mt19937 random(1);
  // Adding an alternative that fits no name makes a pattern long.
  const std::string never = "|" + std::string(4200, '!');
  for (const char* pattern :
       {"a*b", "(a|b)*c?", "a+(ba)*", "[ab]{2,4}c*", "(?:ab?|c)+", "a.*c", "(?=a)[^c]*", "(?!a).*",
        "\\bab\\b.*", "(a*)*b", "a??b+?", "^a.*$", "(ab|a)(bc)?"}) {
    const NamePattern direct(pattern);
    const NamePattern other(pattern + never);
    for (int i = 0; i < 200; ++i) {
      std::string name(4 + random() % 8, 'a');
      for (char& letter : name) letter = "abc"[random() % 3];
      EXPECT_EQ(direct.Matches(name), other.Matches(name)) << pattern << " of '" << name << "'";
    }
  }
}

}  // namespace
}  // namespace bitpress::plan
