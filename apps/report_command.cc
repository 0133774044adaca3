// bitpress report: writes a page about a quantized model.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "progress_bar.h"
#include "rewrite/prepare.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/report.h"

namespace bitpress::apps {
namespace {

struct ReportArguments {
  std::string model, reference, output, calibration, plan_file, search;
  JsonOption json;
  std::string command_line;
  SampleArguments samples;
  bool as_is = false;
  tasks::ReportOptions request;
};

void RunReport(ReportArguments& options) {
  tasks::ReportOptions& request = options.request;
  request.model = PathOf(options.model);
  request.reference = PathOf(options.reference);
  request.output = PathOf(options.output);
  request.json = options.json.file();
  request.samples = options.samples.Spec();
  request.calibration = PathOf(options.calibration);
  request.plan_file = PathOf(options.plan_file);
  request.search = PathOf(options.search);
  if (options.as_is) request.preparation = rewrite::Preparation::kAsIs;
  request.commands = {{"This page", options.command_line}};
  report::Report report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::WriteReport(request);
    request.progress = {};
  }
  options.json.Print(
      fmt::format("{}: {} layers, {} tensors, measured on {} samples\n", options.output,
                  report.layers.size(), report.tensors.size(), report.num_layer_samples),
      [&] { return report::ToJson(report); });
}

}  // namespace

void AddReportCommand(CLI::App& program, const std::string& command_line) {
  CLI::App* const command = program.add_subcommand(
      "report",
      "Find out where a quantized model loses accuracy: a page of layers, ranges, sizes.");
  const auto options = std::make_shared<ReportArguments>();
  options->command_line = command_line;
  tasks::ReportOptions& request = options->request;
  command->add_option("model", options->model, "the quantized ONNX model, made by any tool")
      ->required()
      ->type_name("MODEL");
  command->add_option("--reference", options->reference, "the float model that it was made from")
      ->required()
      ->type_name("MODEL");
  command->add_option("-o,--output", options->output, "the HTML file to write")
      ->required()
      ->type_name("FILE");
  AddSampleOptions(*command, options->samples)
      ->description(
          "the folder with samples to measure on: photos, .npy or .npz arrays, or TensorProto .pb "
          "files (default: none, and the page shows weights and sizes only)");
  constexpr int kMost = 1'000'000'000;  // CLI11 would read a negative number as a large one
  command
      ->add_option("--layer-samples", request.num_layer_samples,
                   "number of samples that layers and activations are measured on, the first ones "
                   "(default: 16)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  command
      ->add_option("--calibration", options->calibration,
                   "the statistics of activations: a file of `bitpress calibrate` (default: they "
                   "are gathered from the samples)")
      ->type_name("FILE");
  command
      ->add_option("--plan", options->plan_file,
                   "the plan that the model was made from; it says why tensors stayed float")
      ->type_name("FILE");
  command
      ->add_option("--search", options->search,
                   "show the results of a search: a file of `bitpress search --json`")
      ->type_name("FILE");
  options->json.Add(*command, "the page's data");
  command->add_flag("--as-is", options->as_is, "the model was quantized with --as-is");
  command->add_option("--batch", request.batch_size, "number of samples in one run (default: 20)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  AddTaskOption(*command, "threads", request.num_threads);
  command->footer(
      "Example:\n"
      "  bitpress report model_mx6.onnx --reference model.onnx --data photos --labels labels.csv "
      "\\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\" -o report.html\n");
  command->callback([options] { RunReport(*options); });
}

}  // namespace bitpress::apps
