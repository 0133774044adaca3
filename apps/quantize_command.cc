// bitpress quantize: writes the quantized model.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "command.h"
#include "graph/staged_model.h"
#include "json_option.h"
#include "progress_bar.h"
#include "quantization_options.h"
#include "quantized_text.h"
#include "tasks/json_file.h"
#include "tasks/quantize.h"
#include "tasks/report.h"

namespace bitpress::apps {
namespace {

struct QuantizeArguments {
  QuantizationArguments inputs;
  std::string page;
  JsonOption json;
  std::string command_line;
  bool is_verbose = false;
};

// Writes the page about the model that was just written.
void WritePage(const QuantizeArguments& options, const tasks::QuantizeOptions& request,
               const tasks::QuantizeReport& quantized) {
  tasks::ReportOptions page;
  page.model = request.output;
  page.reference = request.model;
  page.output = PathOf(options.page);
  page.samples = request.samples;
  page.preparation = request.preparation;
  page.quantized = &quantized;
  page.commands = {{"Quantize, and this page", options.command_line}};
  page.num_threads = request.num_threads;
  page.progress = request.progress;
  tasks::WriteReport(page);
}

// Checks before any work that the page can be written, and that it replaces no model.
void CheckPage(const QuantizeArguments& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  const tasks::QuantizeOptions& request = options.inputs.request;
  if (fs::equivalent(request.model, request.output, error)) {
    throw CLI::ValidationError(
        "--report compares with the float model, which -o would replace: write to another file");
  }
  const fs::path page = fs::weakly_canonical(PathOf(options.page), error);
  for (const fs::path& other : {request.model, request.output}) {
    if (page == fs::weakly_canonical(other, error)) {
      throw CLI::ValidationError("--report names the file of a model: choose another name");
    }
  }
  const AtomicFile probe(PathOf(options.page));
}

void RunQuantize(QuantizeArguments& options) {
  if (!options.page.empty()) CheckPage(options);
  std::vector<std::string> notices;
  options.inputs.Complete(notices);
  tasks::QuantizeOptions& request = options.inputs.request;
  if (!request.calibration.empty() && request.samples.is_given() && request.plan_file.empty() &&
      request.config.finetune.empty() && !request.config.guard) {
    throw CLI::ValidationError(
        "--calibration has the statistics already; --data besides it is for fine-tuning and for "
        "the guard only");
  }
  tasks::JsonFile file(options.json.file());
  tasks::QuantizeReport report;
  if (const std::string note = graph::ReplacedDataNote(request.output); !note.empty()) {
    std::fputs(fmt::format("note: {}\n", note).c_str(), stderr);
  }
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Quantize(request);
    if (!options.page.empty()) WritePage(options, request, report);
    request.progress = {};
  }
  std::string text = DescribeQuantized(request, report, options.is_verbose);
  if (!options.page.empty()) text += fmt::format("  report: {}\n", options.page);
  for (const std::string& pass : request.disabled_passes) {
    text += fmt::format("  note: pass {} was switched off\n", pass);
  }
  for (const std::string& notice : notices) text += fmt::format("  note: {}\n", notice);
  const auto to_json = [&] {
    nlohmann::ordered_json json = tasks::ToJson(report);
    json["disabled_passes"] = request.disabled_passes;
    json["notes"] = notices;
    return json;
  };
  file.Write(to_json());
  options.json.Print(text, to_json);
}

// Adds the options for the report.
void AddReportOptions(CLI::App& command, QuantizeArguments& options) {
  command
      .add_option("--report", options.page,
                  "also write a page about the model to this HTML file (see `bitpress report`)")
      ->type_name("FILE");
  command.add_flag("--verbose", options.is_verbose,
                   "print also the formats, reasons, fine-tuned layers and operators behind the "
                   "verdict");
  options.json.Add(command);
}

}  // namespace

void AddQuantizeCommand(CLI::App& program, const std::string& command_line) {
  CLI::App* const command =
      program.add_subcommand("quantize", "Quantize a float model: write it with fewer bits.");
  const auto options = std::make_shared<QuantizeArguments>();
  options->command_line = command_line;
  AddQuantizationOptions(*command, options->inputs,
                         "the file to write; may be the model itself (it is replaced at the end)");
  AddWritingOptions(*command, options->inputs);
  AddReportOptions(*command, *options);
  command->footer(
      ListPresets() +
      "\nExamples:\n"
      "  bitpress quantize model.onnx -o model_mx6.onnx --config MX6\n"
      "  bitpress quantize model.onnx -o mixed.onnx --config MX9 --weights mxfp4_e2m1\n"
      "  bitpress quantize model.onnx -o out.onnx --plan plan.json\n"
      "  bitpress quantize model.onnx -o model_int8.onnx --config INT8 --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n"
      "  bitpress quantize decoder.onnx -o small_cache.onnx --config none --set kv_cache=int8 \\\n"
      "      --text learn.txt --tokenizer tokenizer.json --sequence 256 --samples 32\n"
      "  bitpress quantize model.onnx -o tuned.onnx --config MXFP8E4M3_ADAQUANT --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n");
  command->callback([options] { RunQuantize(*options); });
}

}  // namespace bitpress::apps
