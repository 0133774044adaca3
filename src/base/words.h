// Words for the values of an enumeration, as users write and read them: one table, and the ways
// between word and value. An unknown word is told with all that there are and the nearest.
//
//   constexpr std::array<std::pair<std::string_view, Color>, 2> kColors{
//       {{"red", Color::kRed}, {"blue", Color::kBlue}}};
//   const Color color = ParseWord<Color>(kColors, "blue", "color");
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace bitpress {

// The table of an enumeration, in the order of help texts.
template <typename T>
using Words = std::span<const std::pair<std::string_view, T>>;

// Returns the words of an enumeration: its table, which FieldWords(const T*) returns beside the
// type.
template <typename T>
constexpr Words<T> WordsOf() {
  return FieldWords(static_cast<const T*>(nullptr));
}

// Returns "red|blue".
template <typename T>
std::string JoinWords(Words<T> words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.emplace_back(name);
  return Join(names, "|");
}

// Returns the value of a word. Throws Error(kInvalidArgument): "color 'blu' is not one of red|blue
// (did you mean 'blue'?)", without `what` if that is empty.
template <typename T>
T ParseWord(Words<T> words, std::string_view word, std::string_view what = "") {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    names.emplace_back(name);
  }
  Fail(ErrorCode::kInvalidArgument, "{}{}'{}' is not one of {}{}", what, what.empty() ? "" : " ",
       word, JoinWords(words), DidYouMean(word, names));
}

// Returns the first word for a value, "?" if there is none.
template <typename T>
std::string_view WordOf(Words<T> words, T wanted) {
  for (const auto& [name, value] : words) {
    if (value == wanted) return name;
  }
  return "?";
}

}  // namespace bitpress
