// Small text helpers for messages: nearest names, sizes, lists.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress {

// The candidate with the smallest edit distance to `word` (case-insensitive), or "" if none is near
// (more than a third of the word's length away).
std::string NearestName(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'X'?)" or "" - to be appended to an error about an unknown word.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

// "1.2 MB", "512 B": decimal units, as file managers show them.
std::string HumanBytes(uint64_t bytes);

std::string Join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);
// The pieces between any of `separators` that stand outside of parentheses, without empty ones:
// formats are written `bfp(bits=13, block=32)`.
std::vector<std::string> SplitOutsideParentheses(std::string_view text,
                                                 std::string_view separators);
std::string ToLower(std::string_view text);
// The text as one word of a POSIX shell; left as it is where that is one already.
std::string ShellQuoted(std::string_view text);
std::string_view Trim(std::string_view text);

// Whole-string numbers: no sign of leftovers. Throw Error(kInvalidArgument) naming `what`
// otherwise.
int64_t ParseInt(std::string_view text, std::string_view what);
double ParseDouble(std::string_view text, std::string_view what);

}  // namespace bitpress
