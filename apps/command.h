// The subcommands. Each adds itself to the program's command line and gives what to do when it was
// chosen; that returns nothing and throws bitpress::Error. Arguments and text only: the work is
// done in src/tasks/.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace bitpress::apps {

void AddInspectCommand(CLI::App& program);
void AddPlanCommand(CLI::App& program);
void AddCalibrateCommand(CLI::App& program);
void AddMergeCommand(CLI::App& program);
// `command_line`: what runs, as it may be typed again; it goes into the page of a report.
void AddQuantizeCommand(CLI::App& program, const std::string& command_line);
void AddOptimizeCommand(CLI::App& program);
void AddUnpackCommand(CLI::App& program);
void AddEvaluateCommand(CLI::App& program);
void AddCheckCommand(CLI::App& program);
void AddSensitivityCommand(CLI::App& program);
void AddSearchCommand(CLI::App& program);
void AddAutotuneCommand(CLI::App& program);
void AddReportCommand(CLI::App& program, const std::string& command_line);

// Writes to standard output and makes sure that it got there. Throws Error(kIo).
void Print(std::string_view text);

}  // namespace bitpress::apps
