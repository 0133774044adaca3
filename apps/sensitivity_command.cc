// bitpress sensitivity: measures what each layer loses in each candidate format.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/paths.h"
#include "command.h"
#include "progress_bar.h"
#include "search/output_meter.h"
#include "search_options.h"
#include "tasks/search.h"
#include "tasks/sensitivity.h"

namespace bitpress::apps {
namespace {

struct SensitivityArguments {
  SpaceArguments arguments;
  std::string output, shard;
  tasks::SensitivityOptions request;
};

struct MeasuredLayer {
  double noise = 0;
  std::string text;
};

// Lists the layers that lose most, the worst first.
std::string DescribeWorst(const tasks::SensitivityReport& report) {
  std::vector<MeasuredLayer> entries;
  for (const search::LayerLoss& layer : report.sensitivity.layers) {
    for (size_t i = 0; i < layer.parts.size(); ++i) {
      if (!layer.parts[i].is_there) continue;
      const search::Part& part = report.space.parts[i];
      const std::string side =
          part.side == search::Side::kBoth ? "" : fmt::format("{} ", search::SideName(part.side));
      const double noise = layer.parts[i].noise();
      entries.push_back({noise, fmt::format("  {:>9}  {}{} in {} '{}'\n",
                                            search::LossText(noise, layer.is_divergence), side,
                                            part.candidate.name, layer.op_type, layer.node)});
    }
  }
  std::ranges::stable_sort(entries, std::ranges::greater(), &MeasuredLayer::noise);
  constexpr size_t kMost = 10;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, entries.size()); ++i) text += entries[i].text;
  return text;
}

void RunSensitivity(SensitivityArguments& options) {
  tasks::SensitivityOptions& request = options.request;
  options.arguments.Resolve(request);
  request.output = PathOf(options.output);
  if (!options.shard.empty()) request.layers = data::ParseShard(options.shard);
  tasks::SensitivityReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::MeasureSensitivity(request);
    request.progress = {};
  }
  const search::Sensitivity& sensitivity = report.sensitivity;
  std::string text =
      fmt::format("{}: {} layers, {} candidates, {} samples\n", options.output,
                  sensitivity.layers.size(), report.space.parts.size(), sensitivity.num_samples);
  if (sensitivity.num_resumed > 0) {
    text += fmt::format("  {} layers were in a journal\n", sensitivity.num_resumed);
  }
  if (report.rank_correlation) {
    text +=
        fmt::format("  rank correlation of fast with exact: {:.3f}\n", *report.rank_correlation);
  }
  for (const auto& [node, reason] : sensitivity.left_out) {
    text += fmt::format("  left out: '{}': {}\n", node, reason);
  }
  const char* const loss =
      sensitivity.is_divergence()
          ? "Divergence of the predicted tokens with one layer alone "
            "quantized, the largest:\n"
          : "SQNR of the outputs with one layer alone quantized, the lowest:\n";
  Print(text + loss + DescribeWorst(report));
}

}  // namespace

void AddSensitivityCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "sensitivity", "Find the layers that quantization harms most, in each candidate format.");
  const auto options = std::make_shared<SensitivityArguments>();
  AddSpaceOptions(*command, options->arguments, options->request);
  command->add_option("-o,--output", options->output, "the JSON file to write")
      ->required()
      ->type_name("FILE");
  command->add_flag("--time", options->request.measures_time,
                    "also measure the time of each layer in each candidate format");
  command
      ->add_option(
          "--shard", options->shard,
          "only one of several parts of the layers: 2/8 is the second of eight. The output "
          "is a journal then; `bitpress merge` makes one of all parts, and with the name "
          "OUTPUT.journal `sensitivity` and `search` go on from it")
      ->type_name("K/N");
  command->footer(
      "Examples:\n"
      "  bitpress sensitivity model.onnx --candidates mx9,mx6,mxfp4_e2m1,int8 --data photos \\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\" -o sensitivity.json\n"
      "  bitpress sensitivity model.onnx --candidates mx9,mx6 --data samples --shard 2/8 -o "
      "part2.journal\n");
  command->callback([options] { RunSensitivity(*options); });
}

}  // namespace bitpress::apps
