// bitpress manual: writes manual pages (man) from the same descriptions as --help.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/version.h"
#include "command.h"

namespace bitpress::apps {
namespace {

// Returns text as roff prints it: hyphens that can be copied, and no line that reads as a request.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (escaped.empty() || escaped.back() == '\n') {
      if (c == '.' || c == '\'') escaped += "\\&";
    }
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Returns an entry of a list: a name in bold, its text further to the right.
std::string ManualEntry(std::string_view name, std::string_view text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", Escaped(name), Escaped(text));
}

std::string OptionsText(const CLI::App& command) {
  std::string positionals, options;
  for (const CLI::Option* const option : command.get_options()) {
    const std::string type = option->get_items_expected_max() > 0 ? option->get_type_name() : "";
    if (option->get_positional()) {
      positionals +=
          ManualEntry(type.empty() ? option->get_name() : type, option->get_description());
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    options += ManualEntry(Join(names, ", ") + (type.empty() ? "" : " " + type),
                           option->get_description());
  }
  return (positionals.empty() ? "" : ".SH ARGUMENTS\n" + positionals) + ".SH OPTIONS\n" + options;
}

// Returns what stands below the options of --help: paragraphs, lists whose entries are indented
// and their texts further, and examples, which keep their lines.
std::string FooterText(std::string_view footer) {
  constexpr size_t kTextIndent = 6;
  std::string text;
  bool is_example = false;
  for (const std::string& line : Split(footer, '\n')) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view words = std::string_view(line).substr(indent);
    if (words.empty()) {
      if (!is_example) text += ".PP\n";
    } else if (indent == 0 && (words == "Example:" || words == "Examples:")) {
      text += ".SH EXAMPLES\n.nf\n";
      is_example = true;
    } else if (is_example) {
      text += Escaped(line) + "\n";
    } else if (indent == 0 && words.ends_with(':')) {
      text += fmt::format(".SS {}\n", Escaped(words.substr(0, words.size() - 1)));
    } else if (indent > 0 && indent < kTextIndent) {
      text += fmt::format(".TP\n{}\n", Escaped(words));
    } else {
      text += Escaped(words) + "\n";
    }
  }
  return text + (is_example ? ".fi\n" : "");
}

std::string Head(std::string_view name, std::string_view about) {
  std::string title;
  for (const char c : name) title += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (about.ends_with('.')) about.remove_suffix(1);
  return fmt::format(".TH {} 1 \"\" \"bitpress {}\" \"Bitpress\"\n.SH NAME\n{} \\- {}\n",
                     Escaped(title), Version(), Escaped(name), Escaped(about));
}

// The sections that all pages share.
constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n0\nThe work was done.\n"
    ".TP\n1\nIt failed: a file, a model, ONNX Runtime or the system. \\fBcheck\\fR and "
    "\\fBdoctor\\fR also end so if they find a problem.\n"
    ".TP\n2\nThe command line is wrong.\n";
constexpr std::string_view kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBBITPRESS_ONNXRUNTIME\\fR\nThe ONNX Runtime library to use, instead of the one that "
    "is found.\n"
    ".TP\n\\fBBITPRESS_KERNELS\\fR\nThe instruction set of our kernels, one of those that "
    "\\fBbitpress doctor\\fR lists.\n"
    ".TP\n\\fBBITPRESS_PYTHON\\fR\nThe Python whose package \\fItokenizers\\fR reads texts.\n";

std::string CommandPage(const CLI::App& command) {
  const std::string name = command.get_name();
  std::string arguments;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_positional()) arguments += " " + option->get_type_name();
  }
  return Head("bitpress-" + name, command.get_description()) +
         fmt::format(".SH SYNOPSIS\n\\fBbitpress {}\\fR [OPTIONS]{}\n", Escaped(name),
                     Escaped(arguments)) +
         OptionsText(command) + FooterText(command.get_footer()) + std::string(kExitStatus) +
         ".SH SEE ALSO\n\\fBbitpress\\fR(1)\n";
}

std::string ProgramPage(const CLI::App& program) {
  std::string commands;
  for (const CLI::App* const command : program.get_subcommands({})) {
    commands += ManualEntry("bitpress-" + command->get_name() + "(1)", command->get_description());
  }
  return Head("bitpress", program.get_description()) +
         ".SH SYNOPSIS\n\\fBbitpress\\fR COMMAND [OPTIONS] ...\n.SH COMMANDS\n" + commands +
         OptionsText(program) + FooterText(program.get_footer()) + std::string(kExitStatus) +
         std::string(kEnvironment);
}

struct ManualArguments {
  std::string command;
  std::string folder;
};

void RunManual(const CLI::App& program, const ManualArguments& options) {
  const std::vector<const CLI::App*> commands = program.get_subcommands({});
  if (!options.folder.empty()) {
    if (!options.command.empty()) {
      throw CLI::ValidationError("--pages writes the pages of all commands; name none");
    }
    const std::filesystem::path folder = PathOf(options.folder);
    WriteFile(folder / "bitpress.1", ProgramPage(program));
    for (const CLI::App* const command : commands) {
      WriteFile(folder / fmt::format("bitpress-{}.1", command->get_name()), CommandPage(*command));
    }
    return;
  }
  if (options.command.empty()) return Print(ProgramPage(program));
  std::vector<std::string> names;
  for (const CLI::App* const command : commands) {
    if (command->get_name() == options.command) return Print(CommandPage(*command));
    names.push_back(command->get_name());
  }
  throw CLI::ValidationError(fmt::format("there is no command '{}'{}", options.command,
                                         DidYouMean(options.command, names)));
}

}  // namespace

void AddManualCommand(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("manual", "Write the manual page of a command, for man.");
  const auto options = std::make_shared<ManualArguments>();
  command->add_option("command", options->command, "the command (default: bitpress itself)")
      ->type_name("COMMAND");
  command->add_option("--pages", options->folder, "write the pages of all commands to this folder")
      ->type_name("DIR");
  command->footer(
      "Examples:\n"
      "  bitpress manual quantize | man -l -\n"
      "  bitpress manual --pages /usr/local/share/man/man1\n");
  command->callback([&program, options] { RunManual(program, *options); });
}

}  // namespace bitpress::apps
