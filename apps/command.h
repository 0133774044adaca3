// The subcommands of the program. Each function adds one to the command line, with a callback that
// runs it and throws bitpress::Error. The commands read arguments and print text; the work is done
// in src/tasks/.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "cli.h"

namespace bitpress::apps {

void AddInspectCommand(CLI::App& program);
void AddPlanCommand(CLI::App& program);
void AddCalibrateCommand(CLI::App& program);
void AddMergeCommand(CLI::App& program);
// `command_line` is the present command, so that it can be typed again. The page of a report shows
// it.
void AddQuantizeCommand(CLI::App& program, const std::string& command_line);
void AddMomentsCommand(CLI::App& program);
void AddTuneCommand(CLI::App& program);
void AddOptimizeCommand(CLI::App& program);
void AddUnpackCommand(CLI::App& program);
void AddEvaluateCommand(CLI::App& program);
void AddCheckCommand(CLI::App& program);
void AddTargetsCommand(CLI::App& program);
void AddSensitivityCommand(CLI::App& program);
void AddSearchCommand(CLI::App& program);
void AddAutoCommand(CLI::App& program);
void AddAutotuneCommand(CLI::App& program);
void AddHubCommand(CLI::App& program);
void AddReportCommand(CLI::App& program, const std::string& command_line);
void AddDoctorCommand(CLI::App& program);
void AddCompletionCommand(CLI::App& program);
void AddManualCommand(CLI::App& program);

// Returns an option's name as it is typed: "num_threads" is "--num-threads".
std::string Spelt(std::string_view option);

// Writes to standard output, or where PrintTo says. Throws Error(kIo) if not everything was
// written.
void Print(std::string_view text);
// Makes Print write to standard error, because standard output gets a file, or to standard output.
void PrintTo(std::FILE* stream);
// Makes texts and errors name a temporary file as the user typed it, "-", until PrintTo is called.
void NameStandardStream(const std::string& file);
// Returns whether a file stands for standard input or output.
bool IsStandardStream(const std::string& file);

}  // namespace bitpress::apps
