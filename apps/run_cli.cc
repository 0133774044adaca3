#include "run_cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/version.h"
#include "cli.h"
#include "command.h"
#include "deploy/check_process.h"
#include "kernels/cpu_target.h"
#include "runtime/ort_library.h"
#include "standard_streams.h"

namespace bitpress::apps {
namespace {

// Print writes here. The program has one command line, and one thread of it prints.
std::FILE*& TextStream() {
  static std::FILE* stream = stdout;
  return stream;
}

// The files that stand for standard input and output.
std::vector<std::string>& StreamFiles() {
  static std::vector<std::string> files;
  return files;
}

// Returns a text with the files that the user named, "-" among them.
std::string AsTyped(std::string_view given) {
  std::string text(given);
  for (const std::string& file : StreamFiles()) text = Replaced(std::move(text), file, "-");
  return text;
}

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Report(std::string_view message, int exit_code) {
  fmt::print(stderr, "bitpress: error: {}\n", OneLine(AsTyped(message)));
  return exit_code;
}

// Returns the error for an unknown command, or "". CLI11 would only say that a command is required.
std::string UnknownCommand(const CLI::App& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::find(names, argv[1]) != names.end()) return "";
  return fmt::format("there is no command '{}'{}; the commands are {}", argv[1],
                     DidYouMean(argv[1], names), Join(names, ", "));
}

// Returns what is wrong with the first option that the command does not have, or "". CLI11 says
// first which options are missing, and the misspelt one may be one of these.
std::string UnknownOption(const CLI::App& program) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  const CLI::App& command = commands.empty() ? program : *commands.front();
  for (const std::string& argument : program.remaining(/*recurse=*/true)) {
    if (argument == "--") break;  // no options follow
    const bool is_option =
        argument.size() > 1 && argument[0] == '-' && argument.find_first_of("0123456789.") != 1;
    if (!is_option) continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string name = argument.substr(0, argument.find('='));
    return fmt::format("{} has no option '{}'{}; --help lists them",
                       commands.empty() ? "bitpress" : fmt::format("'{}'", command.get_name()),
                       name, DidYouMean(name, names));
  }
  return "";
}

// Returns the command line as it may be typed again.
std::string CommandLine(int argc, char** argv) {
  std::string line = "bitpress";
  for (int i = 1; i < argc; ++i) line += " " + ShellQuoted(argv[i]);
  return line;
}

// Adds --operator-library to the commands that run models.
void AddOperatorLibraryOption(CLI::App& program) {
  for (const char* const name :
       {"plan", "calibrate", "quantize", "unpack", "moments", "tune", "optimize", "evaluate",
        "check", "sensitivity", "search", "auto", "autotune", "hub", "report"}) {
    program.get_subcommand(name)
        ->add_option_function<std::vector<std::string>>(
            "--operator-library",
            [](const std::vector<std::string>& paths) {
              for (const std::string& path : paths) runtime::UseOperatorLibrary(PathOf(path));
            },
            "a library of operators that the model needs, as ONNX Runtime registers it: its code "
            "runs, so name only what you trust; may be repeated")
        ->type_name("FILE")
        ->allow_extra_args(false);
  }
}

int Parse(int argc, char** argv) {
  const std::string command_line = CommandLine(argc, argv);
  CLI::App program(
      "Presses ONNX models into fewer bits: post-training quantization to integers, FP8, BF16 and "
      "block formats.",
      "bitpress");
  program.set_version_flag("--version",
                           fmt::format("bitpress {}\n{}", Version(), BuildDescription()));
  program.require_subcommand(1);
  // On Windows, too, what begins with a slash is a path.
  program.allow_windows_style_options(false);
  program.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("bitpress: error: {} (--help says how)\n", OneLine(error.what()));
  });
  program.footer(
      "Example:\n  bitpress quantize model.onnx -o model_mx6.onnx --config MX6\n"
      "`bitpress COMMAND --help` lists the options of a command. A file may be -, standard input\n"
      "or, behind -o, standard output.");
  AddInspectCommand(program);
  AddPlanCommand(program);
  AddCalibrateCommand(program);
  AddMergeCommand(program);
  AddQuantizeCommand(program, command_line);
  AddUnpackCommand(program);
  AddMomentsCommand(program);
  AddTuneCommand(program);
  AddOptimizeCommand(program);
  AddEvaluateCommand(program);
  AddCheckCommand(program);
  AddTargetsCommand(program);
  AddSensitivityCommand(program);
  AddSearchCommand(program);
  AddAutoCommand(program);
  AddAutotuneCommand(program);
  AddHubCommand(program);
  AddReportCommand(program, command_line);
  AddDoctorCommand(program);
  AddCompletionCommand(program);
  AddManualCommand(program);
  AddOperatorLibraryOption(program);
  if (argc < 2) {
    Print(program.help());
    return 0;
  }
  // This word is no command for users: the library starts the program with it.
  const bool is_check = argc == 3 && std::string_view(argv[1]) == deploy::kCheckWord;
  if (const std::string unknown = is_check ? "" : UnknownCommand(program, argc, argv);
      !unknown.empty()) {
    return Report(unknown, kUsage);
  }
  try {
    // The Python package sets this variable to the path of its ONNX Runtime.
    const std::string library = EnvironmentVariable("BITPRESS_ONNXRUNTIME");
    if (!library.empty()) runtime::SetOrtLibraryPath(PathOf(library));
    // Tests set this variable to use another instruction set than the processor's best one.
    const std::string kernels = EnvironmentVariable("BITPRESS_KERNELS");
    if (!kernels.empty()) kernels::UseTarget(kernels);
    if (is_check) {
      deploy::AnswerCheck(PathOf(argv[2]));
      return 0;
    }
    StandardStreams streams(argc, argv);
    program.parse(streams.argc(), streams.argv());  // runs the chosen command too
    streams.Finish();
    return 0;
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() == 0 ? "" : UnknownOption(program);
    if (!unknown.empty()) return Report(unknown, kUsage);
    return program.exit(error) == 0 ? 0 : kUsage;
  } catch (const Error& error) {
    return Report(SpellOptions(error.what(), Spelt), kFailed);
  } catch (const std::bad_alloc&) {
    return Report("out of memory", kFailed);
  } catch (const std::exception& error) {
    return Report(fmt::format("unexpected: {}", error.what()), kFailed);
  }
}

}  // namespace

int RunCli(int argc, char** argv) {
  const int exit_code = Parse(argc, argv);
  PrintTo(stdout);
  std::cout.flush();  // CLI11 writes help texts there
  return exit_code;
}

std::string Spelt(std::string_view option) {
  std::string spelt = fmt::format("--{}", option);
  std::ranges::replace(spelt, '_', '-');
  return spelt;
}

void Print(std::string_view given) {
  const std::string text = AsTyped(given);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), TextStream()) == text.size() &&
                          std::fflush(TextStream()) == 0;
  if (!is_written) Fail(ErrorCode::kIo, "cannot write to standard output");
}

void PrintTo(std::FILE* stream) {
  TextStream() = stream;
  StreamFiles().clear();
}

void NameStandardStream(const std::string& file) { StreamFiles().push_back(file); }

bool IsStandardStream(const std::string& file) {
  return std::ranges::find(StreamFiles(), file) != StreamFiles().end();
}

}  // namespace bitpress::apps
