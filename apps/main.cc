// The program `bitpress`. Exit codes: 0 done, 1 it failed (one line on standard error says why), 2
// the command line is wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "base/error.h"
#include "command.h"
#include "pipeline.h"

namespace bitpress::apps {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// Messages of libraries may have several lines.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!is_space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

int Report(std::string_view message, int exit_code) {
  fmt::print(stderr, "bitpress: error: {}\n", OneLine(message));
  return exit_code;
}

int Run(int argc, char** argv) {
  CLI::App program("Presses ONNX models into fewer bits.", "bitpress");
  program.set_version_flag("--version", fmt::format("bitpress {}", pipeline::Version()));
  program.require_subcommand(1);
  program.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("bitpress: error: {} (--help says how)\n", OneLine(error.what()));
  });
  program.footer(
      "Example:\n  bitpress quantize model.onnx -o model_mx6.onnx --config MX6\n"
      "`bitpress COMMAND --help` has the options of a command.");
  AddInspectCommand(program);
  AddPlanCommand(program);
  AddQuantizeCommand(program);
  AddEvaluateCommand(program);
  try {
    program.parse(argc, argv);  // runs the chosen command too
    return 0;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kUsage;
  } catch (const Error& error) {
    return Report(error.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return Report("out of memory", kFailed);
  } catch (const std::exception& error) {
    return Report(fmt::format("unexpected: {}", error.what()), kFailed);
  }
}

}  // namespace

void Print(std::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!is_written) Fail(ErrorCode::kIo, "cannot write to standard output");
}

}  // namespace bitpress::apps

int main(int argc, char** argv) { return bitpress::apps::Run(argc, argv); }
