// Small helpers for text that users write and read: nearest names, sizes, lists, numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress {

// Returns the candidate with the smallest edit distance to `word`, regardless of case. Returns ""
// if all are more than two letters and more than a third of the word's length away.
std::string NearestName(std::string_view word, std::span<const std::string> candidates);

// Returns " (did you mean 'X'?)" or "", to be appended to an error about an unknown word.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

// Returns a size in decimal units, as file managers show them: "1.20 MB", "512 B".
std::string HumanBytes(uint64_t bytes);

// Returns "1 sample", "16 samples".
std::string WithNoun(uint64_t count, std::string_view noun);

// Returns names with their numbers: "2 Conv, 1 Gemm".
std::string CountAll(const std::map<std::string, size_t>& counts);

std::string Join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);
// Returns the pieces between those of `separators` that stand outside of parentheses, without empty
// pieces. Names of formats have commas in parentheses: `bfp(bits=13, block=32)`.
std::vector<std::string> SplitOutsideParentheses(std::string_view text,
                                                 std::string_view separators);
bool IsOneOf(std::string_view word, std::span<const std::string_view> words);
std::string ToLower(std::string_view text);
// Returns the text as one word of a POSIX shell, unchanged if it is one already.
std::string ShellQuoted(std::string_view text);
std::string_view Trim(std::string_view text);
// Returns the text with `to` in every place of `from`. REQUIRES: `from` is not empty.
std::string Replaced(std::string text, std::string_view from, std::string_view to);

// Return the number that the whole text is. Throw Error(kInvalidArgument) naming `what` if anything
// else stands there.
int64_t ParseInt(std::string_view text, std::string_view what);
double ParseDouble(std::string_view text, std::string_view what);

}  // namespace bitpress
