// Options whose value is one of a few words, from the table of an enumeration (base/words.h).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "cli.h"

namespace bitpress::apps {

inline constexpr std::array<std::pair<std::string_view, bool>, 2> kSwitchWords{
    {{"on", true}, {"off", false}}};

// Adds an option that takes one of `words` and writes its meaning to `value`, which must outlive
// the command. Another word is an error that lists all words and suggests the nearest.
template <typename T>
CLI::Option* AddWordOption(CLI::App& command, const std::string& name, T& value, Words<T> words,
                           const std::string& help) {
  const auto read = [name, &value, words](const std::string& word) {
    try {
      value = ParseWord(words, word);
    } catch (const Error& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  return command.add_option_function<std::string>(name, read, help)->type_name(JoinWords(words));
}

}  // namespace bitpress::apps
