// Options whose value is one of a few words: those of an enumeration's table (base/words.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"
#include "base/words.h"

namespace bitpress::apps {

// Adds an option that takes one of `words` and writes what it means to `value`, which must outlive
// the command. Another word is an error of the command line that names all, and the nearest.
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
