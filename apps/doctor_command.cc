// bitpress doctor: tells what Bitpress finds on this machine.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "tasks/doctor.h"
#include "tasks/json_file.h"

namespace bitpress::apps {
namespace {

std::string BytesText(std::optional<uint64_t> bytes) {
  return bytes ? HumanBytes(*bytes) : "unknown";
}

std::string FoundText(const std::filesystem::path& path) {
  return path.empty() ? "not found" : PathText(path);
}

std::string Describe(const tasks::DoctorReport& report) {
  const std::string ort = report.ort_version.empty() ? "not found"
                                                     : fmt::format("{}, {}", report.ort_version,
                                                                   PathText(report.ort_library));
  std::string text = fmt::format(
      "bitpress {}, {}\n"
      "  processor:         {} ({}), {} threads\n"
      "  instruction sets:  {}\n"
      "  kernels:           {} (of {})\n"
      "  memory:            {} free\n"
      "  temporary files:   {}, {} free\n"
      "  ONNX Runtime:      {}\n"
      "  operator library:  {}\n"
      "  models run:        {}\n",
      report.version, report.build, report.processor.empty() ? "unknown" : report.processor,
      report.architecture, report.num_threads, Join(report.instruction_sets, " "), report.kernels,
      Join(report.supported_kernels, " "), BytesText(report.available_memory),
      PathText(report.temporary_folder), BytesText(report.temporary_bytes), ort,
      FoundText(report.operator_library), report.runs_models ? "yes" : "no");
  for (const tasks::Finding& finding : report.findings) {
    text += fmt::format("{}: {}\n", tasks::KindName(finding.kind), finding.text);
  }
  if (report.findings.empty()) text += "nothing is missing\n";
  return text;
}

void RunDoctor(const JsonOption& json) {
  tasks::JsonFile file(json.file());
  const tasks::DoctorReport report = tasks::Examine();
  file.Write(tasks::ToJson(report));
  json.Print(Describe(report), [&] { return tasks::ToJson(report); });
  if (report.has_problem()) Fail(ErrorCode::kRuntime, "some commands do not work here, see above");
}

}  // namespace

void AddDoctorCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "doctor", "Look at this machine: what Bitpress finds, and what will be slow or not work.");
  const auto json = std::make_shared<JsonOption>();
  json->Add(*command);
  command->footer(
      "Put its output into reports of errors. The exit status is not zero if a command cannot work "
      "here.\n"
      "\nExample:\n"
      "  bitpress doctor\n");
  command->callback([json] { RunDoctor(*json); });
}

}  // namespace bitpress::apps
