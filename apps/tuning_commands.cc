// bitpress moments and tune: fine-tuning in parts, for many processes.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "moments_text.h"
#include "progress_bar.h"
#include "quantization_options.h"
#include "tasks/json_file.h"
#include "tasks/tuning.h"

namespace bitpress::apps {
namespace {

struct TuningArguments {
  QuantizationArguments inputs;
  std::string moments, layers;
  JsonOption json;
};

std::string Notes(const std::vector<std::string>& notices) {
  std::string text;
  for (const std::string& notice : notices) text += fmt::format("  note: {}\n", notice);
  return text;
}

void RunMoments(TuningArguments& options) {
  tasks::QuantizeOptions& request = options.inputs.request;
  std::vector<std::string> notices;
  options.inputs.Complete(notices);
  tasks::JsonFile file(options.json.file());
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    tasks::GatherMoments(request);
    request.progress = {};
  }
  const tasks::MomentsSummary summary = tasks::ReadMoments(request.output);
  file.Write(ToJson(summary));
  options.json.Print(ToText(PathText(request.output), summary, false) + Notes(notices),
                     [&] { return ToJson(summary); });
}

void RunTune(TuningArguments& options) {
  tasks::QuantizeOptions& request = options.inputs.request;
  std::vector<std::string> notices;
  options.inputs.Complete(notices);
  data::Shard layers;
  if (!options.layers.empty()) layers = data::ParseShard(options.layers);
  tasks::JsonFile file(options.json.file());
  tasks::TuneReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::TuneLayers(request, PathOf(options.moments), layers);
    request.progress = {};
  }
  std::string text = fmt::format("{}: {} layers, {} of them tuned\n", PathText(request.output),
                                 report.num_layers, report.num_tuned);
  if (report.num_resumed > 0) {
    text += fmt::format("  {} layers were in the journal\n", report.num_resumed);
  }
  const nlohmann::ordered_json json = {{"num_layers", report.num_layers},
                                       {"num_tuned", report.num_tuned},
                                       {"num_resumed", report.num_resumed}};
  file.Write(json);
  options.json.Print(text + Notes(notices), [&] { return json; });
}

}  // namespace

void AddMomentsCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "moments", "Gather what fine-tuning learns from, from some of the samples, to a file.");
  const auto options = std::make_shared<TuningArguments>();
  AddQuantizationOptions(*command, options->inputs, "the file of moments to write (.bpm)");
  AddShardOption(*command, options->inputs.samples);
  options->json.Add(*command, "what is in the file,");
  command->footer(
      ListPresets() +
      "\nThe configuration is that of `bitpress quantize`, with a recipe of fine-tuning. Moments "
      "serve all recipes and\nformats of weights whose activations are quantized alike.\n"
      "\nExamples:\n"
      "  bitpress moments model.onnx --config MX6 --finetune gptq --data samples --shard 2/8 -o "
      "part2.bpm\n"
      "  bitpress merge part*.bpm -o all.bpm\n");
  command->callback([options] { RunMoments(*options); });
}

void AddTuneCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "tune", "Learn some of the layers from moments, to a journal that quantize goes on from.");
  const auto options = std::make_shared<TuningArguments>();
  AddQuantizationOptions(*command, options->inputs,
                         "the journal to write; a run that was stopped goes on from it");
  command
      ->add_option("--moments", options->moments,
                   "the moments of all samples: a file of `bitpress moments` or `bitpress merge`")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--layers", options->layers,
                   "only one of several parts of the layers: 3/16 is the third of sixteen. "
                   "`bitpress merge` makes one journal of all parts; with the name OUTPUT.journal "
                   "`bitpress quantize -o OUTPUT` goes on from it")
      ->type_name("K/N");
  options->json.Add(*command, "the numbers of layers,");
  command->footer(
      ListPresets() +
      "\nExamples:\n"
      "  bitpress tune model.onnx --config MX6 --finetune gptq --moments all.bpm --layers 3/16 -o "
      "part3.journal\n"
      "  bitpress merge part*.journal -o tuned.onnx.journal\n"
      "  bitpress quantize model.onnx --config MX6 --finetune gptq --data samples -o tuned.onnx\n");
  command->callback([options] { RunTune(*options); });
}

}  // namespace bitpress::apps
