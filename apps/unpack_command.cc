// bitpress unpack: writes the float equivalent of a packed model.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "progress_bar.h"
#include "task_option.h"
#include "tasks/json_file.h"
#include "tasks/unpack.h"

namespace bitpress::apps {
namespace {

struct UnpackArguments : tasks::UnpackOptions {
  JsonOption json;
};

void RunUnpack(UnpackArguments options) {
  tasks::JsonFile file(options.json.file());
  tasks::UnpackReport report;
  {
    ProgressBar bar;
    options.progress = bar.Sink();
    report = tasks::Unpack(options);
  }
  std::string text = fmt::format("{}: {} ({} before), {} weights unpacked",
                                 PathText(options.output), HumanBytes(report.output_bytes),
                                 HumanBytes(report.input_bytes), report.num_weights);
  if (options.drop_quantizers) {
    text += fmt::format(", {} quantizers taken out", report.num_quantizers);
  }
  text += "\n";
  if (!report.why_not_checked.empty()) {
    text += fmt::format("  not checked: {}\n", report.why_not_checked);
  }
  file.Write(tasks::ToJson(report));
  options.json.Print(text, [&] { return tasks::ToJson(report); });
}

}  // namespace

void AddUnpackCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "unpack", "Turn the packed weights of a model back into floats, for tools that need floats.");
  const auto options = std::make_shared<UnpackArguments>();
  command->add_option("model", options->model, "a model made by `bitpress quantize`")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("-o,--output", options->output,
                   "the file to write; may be the model itself (it is replaced at the end)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--drop-quantizers", options->drop_quantizers,
                    "also remove the quantizers of activations, which changes the outputs");
  command->add_flag_callback(
      "--external-data", [options] { options->external_data = graph::ExternalData::kAlways; },
      std::string(OptionCalled("external_data").meaning));
  AddTaskOption(*command, "check", options->is_checked);
  options->json.Add(*command);
  AddTaskOption(*command, "threads", options->num_threads);
  command->footer(
      "Examples:\n"
      "  bitpress unpack quantized.onnx -o floats.onnx\n"
      "  bitpress unpack quantized.onnx -o weights_only.onnx --drop-quantizers\n");
  command->callback([options] { RunUnpack(*options); });
}

}  // namespace bitpress::apps
