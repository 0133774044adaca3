// bitpress optimize: writes a faster model for machines like this one.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "task_option.h"
#include "tasks/json_file.h"
#include "tasks/optimize.h"

namespace bitpress::apps {
namespace {

struct OptimizeArguments {
  std::string model;
  std::string output;
  PassNames disabled_passes;
  bool is_checked = true;
  JsonOption json;
};

std::string Summarize(const OptimizeArguments& options, const tasks::OptimizeReport& report) {
  std::string text = fmt::format("{}: {} ({} before)\n", options.output,
                                 HumanBytes(report.output_bytes), HumanBytes(report.input_bytes));
  text += fmt::format("  removed {} layout conversions around {} quantizers\n",
                      report.reorders.num_removed, report.reorders.num_quantizers);
  if (report.reorders.num_left > 0) {
    text += fmt::format(
        "  {} quantizers keep theirs: blocks run along channels, or the result is needed as NCHW\n",
        report.reorders.num_left);
  }
  if (!report.why_not_checked.empty()) {
    text += fmt::format("  not checked: {}\n", report.why_not_checked);
  }
  return text + fmt::format("  this file is for machines with {}; keep '{}' for others\n",
                            report.machine, options.model);
}

void RunOptimize(const OptimizeArguments& options) {
  tasks::OptimizeOptions request;
  request.model = PathOf(options.model);
  request.output = PathOf(options.output);
  request.disabled_passes = options.disabled_passes;
  request.is_checked = options.is_checked;
  tasks::JsonFile file(options.json.file());
  const tasks::OptimizeReport report = tasks::OptimizeForMachine(request);
  file.Write(tasks::ToJson(report));
  options.json.Print(Summarize(options, report), [&] { return tasks::ToJson(report); });
}

}  // namespace

void AddOptimizeCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "optimize", "Make a model faster on machines like this one, with the same outputs.");
  const auto options = std::make_shared<OptimizeArguments>();
  command
      ->add_option("model", options->model, "the ONNX model, usually made by `bitpress quantize`")
      ->required()
      ->type_name("MODEL");
  command->add_option("-o,--output", options->output, "the file to write; not the model itself")
      ->required()
      ->type_name("FILE");
  AddTaskOption(*command, "disable_pass", options->disabled_passes);
  AddTaskOption(*command, "check", options->is_checked);
  options->json.Add(*command);
  command->footer(
      "This is the last step before a model is deployed. ONNX Runtime writes the graph that it\n"
      "runs on this machine, in which convolutions use a blocked layout. Quantizers of formats\n"
      "without blocks (bf16, fp16, fp8_e4m3, fp8_e5m2) are moved into that layout, so that the\n"
      "conversions around them are no longer needed. Formats with blocks read neighbouring\n"
      "channels and keep the conversions. The outputs are the same, bit for bit. The file is\n"
      "for this kind of processor and this version of ONNX Runtime only (`bitpress inspect`\n"
      "shows both). It cannot be quantized or optimized again, so keep the model.\n"
      "\nExample:\n"
      "  bitpress quantize model.onnx -o model_bf16.onnx --config BF16\n"
      "  bitpress optimize model_bf16.onnx -o model_bf16_here.onnx\n");
  command->callback([options] { RunOptimize(*options); });
}

}  // namespace bitpress::apps
