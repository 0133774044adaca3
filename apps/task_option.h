// Options of tasks as rows of bitpress/quantize_options.inc describe them, so that one has the same
// word, values and help in every command.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

#include "cli.h"
#include "command.h"
#include "tasks/quantize_options.h"
#include "word_option.h"

namespace bitpress::apps {

// Return the row of an option, and the help of one with a default.
tasks::OptionRow OptionCalled(std::string_view key);
std::string WithDefault(std::string_view meaning, std::string_view value);

// Add an option to a command. `value` has the default, and must outlive the command.
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, std::filesystem::path& value);
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, size_t& value);
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, std::string& value);
// A flag if it is off by default, otherwise on|off.
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, bool& value);
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, Preparation& value);
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, PassNames& value);
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, Target& value);
// One of the words of an enumeration.
template <typename T>
requires std::is_enum_v<T>
void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, T& value) {
  const Words<T> words = WordsOf<T>();
  AddWordOption<T>(command, Spelt(row.key), value, words,
                   WithDefault(row.meaning, WordOf(words, value)));
}

// Adds an option for a target, whose name or file is read where it is given.
void AddTargetOption(CLI::App& command, const std::string& name, Target& value,
                     const std::string& help);

template <typename T>
void AddTaskOption(CLI::App& command, std::string_view key, T& value) {
  AddTaskOption(command, OptionCalled(key), value);
}

}  // namespace bitpress::apps
