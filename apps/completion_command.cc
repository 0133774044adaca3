// bitpress completion: writes what a shell needs to complete commands and options, from the same
// descriptions as --help.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "command.h"
#include "word_option.h"

namespace bitpress::apps {
namespace {

enum class Shell { kBash, kZsh, kFish };
constexpr std::array<std::pair<std::string_view, Shell>, 3> kShells{
    {{"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}}};

struct OptionWords {
  std::string name;  // "--config"
  std::string description;
  bool takes_value = false;
};

struct CommandWords {
  std::string name, description;
  std::vector<OptionWords> options;
};

std::vector<CommandWords> WordsOf(const CLI::App& program) {
  std::vector<CommandWords> commands;
  for (const CLI::App* const command : program.get_subcommands({})) {
    CommandWords& words =
        commands.emplace_back(CommandWords{command->get_name(), command->get_description(), {}});
    for (const CLI::Option* const option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        words.options.push_back(
            {"--" + name, option->get_description(), option->get_items_expected_max() > 0});
      }
    }
  }
  return commands;
}

std::string NamesOf(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.name);
  return Join(names, " ");
}

// Returns the first sentence of a description, quoted for a shell. `escaped` are the characters
// that mean something to the shell's completion.
std::string Quoted(std::string_view description, std::string_view escaped = "") {
  std::string text;
  for (const char c : description.substr(0, description.find(". "))) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      if (escaped.find(c) != std::string_view::npos) text += '\\';
      text += c == '\n' ? ' ' : c;
    }
  }
  return "'" + text + "'";
}

std::string BashText(const std::vector<CommandWords>& commands) {
  std::string text = fmt::format(
      "# Completion of bitpress for bash. Load it: source <(bitpress completion bash)\n"
      "_bitpress() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" options=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n",
      NamesOf(commands));
  for (const CommandWords& command : commands) {
    std::vector<std::string> names;
    for (const OptionWords& option : command.options) names.push_back(option.name);
    text += fmt::format("    {}) options=\"{}\" ;;\n", command.name, Join(names, " "));
  }
  return text +
         "  esac\n"
         "  case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _bitpress bitpress\n";
}

std::string ZshText(const std::vector<CommandWords>& commands) {
  constexpr std::string_view kEscaped = "[]:\\";
  std::string text =
      "#compdef bitpress\n"
      "# Completion of bitpress for zsh. Load it: source <(bitpress completion zsh)\n"
      "_bitpress() {\n"
      "  local -a commands=(\n";
  for (const CommandWords& command : commands) {
    text += fmt::format("    {}:{}\n", command.name, Quoted(command.description, ":\\"));
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=${words[2]}\n"
      "  (( CURRENT-- ))\n"
      "  shift words\n"
      "  case $command in\n";
  for (const CommandWords& command : commands) {
    text += fmt::format("    {}) _arguments", command.name);
    for (const OptionWords& option : command.options) {
      text +=
          fmt::format(" \\\n      '*{}['{}']{}'", option.name, Quoted(option.description, kEscaped),
                      option.takes_value ? ":value:_files" : "");
    }
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "if [ \"${funcstack[1]}\" = _bitpress ]; then _bitpress; else compdef _bitpress bitpress; "
         "fi\n";
}

std::string FishText(const std::vector<CommandWords>& commands) {
  std::string text =
      "# Completion of bitpress for fish. Load it: bitpress completion fish | source\n";
  for (const CommandWords& command : commands) {
    text += fmt::format("complete -c bitpress -n __fish_use_subcommand -f -a {} -d {}\n",
                        command.name, Quoted(command.description));
  }
  for (const CommandWords& command : commands) {
    for (const OptionWords& option : command.options) {
      text += fmt::format(
          "complete -c bitpress -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n", command.name,
          option.name.substr(2), option.takes_value ? " -r" : "", Quoted(option.description));
    }
  }
  return text;
}

std::string TextFor(Shell shell, const CLI::App& program) {
  const std::vector<CommandWords> commands = WordsOf(program);
  switch (shell) {
    case Shell::kBash:
      return BashText(commands);
    case Shell::kZsh:
      return ZshText(commands);
    case Shell::kFish:
      return FishText(commands);
  }
  return "";
}

}  // namespace

void AddCompletionCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "completion", "Write what a shell needs to complete commands and options.");
  const auto shell = std::make_shared<Shell>(Shell::kBash);
  AddWordOption<Shell>(*command, "shell", *shell, kShells, "bash, zsh or fish")->required();
  command->footer(
      "Examples:\n"
      "  source <(bitpress completion bash)\n"
      "  source <(bitpress completion zsh)\n"
      "  bitpress completion fish | source\n");
  command->callback([&program, shell] { Print(TextFor(*shell, program)); });
}

}  // namespace bitpress::apps
