// bitpress calibrate and merge: gather statistics of activations, and add them up.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "evaluation_text.h"
#include "json_option.h"
#include "moments_text.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "tasks/json_file.h"
#include "tasks/sensitivity.h"
#include "tasks/tuning.h"

namespace bitpress::apps {
namespace {

using tasks::ToJson;

// The content of --json.
constexpr const char* kTable = "the statistics, without histograms,";

struct CalibrateArguments {
  std::string model, output;
  SampleArguments samples;
  ConfigOptions config;
  JsonOption json;
  tasks::CalibrateOptions request;
};

// Returns "95 tensors, 100 samples", and the tensors without a value to choose a range from.
std::string Summarize(const calibrate::CalibrationTable& table) {
  std::string text =
      fmt::format("  {} tensors, {} samples\n", table.tensors.size(), table.num_samples);
  for (const auto& [name, tensor] : table.tensors) {
    if (tensor.num_elements() == 0) {
      text += fmt::format("  never computed: '{}'\n", name);
    } else if (tensor.is_empty()) {
      text += fmt::format("  no finite value: '{}'\n", name);
    }
  }
  if (!table.left_out.empty()) text += "  " + DescribeLeftOut(table.left_out);
  return text;
}

void RunCalibrate(CalibrateArguments& options) {
  tasks::CalibrateOptions& request = options.request;
  request.model = PathOf(options.model);
  request.output = PathOf(options.output);
  request.samples = options.samples.Spec();
  if (!options.config.config.empty()) {
    request.config = options.config.Resolve();
  } else if (options.config.HasChanges()) {
    throw CLI::RequiredError("--weights, --activations and --set change a configuration: --config");
  }
  tasks::JsonFile file(options.json.file());
  tasks::CalibrateReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Calibrate(request);
    request.progress = {};
  }
  std::string text = fmt::format("{}: {}\n", options.output, HumanBytes(report.output_bytes));
  text += Summarize(report.result.table);
  text += fmt::format("  time in ONNX Runtime: {:.1f} ms\n", report.result.run_ms);
  if (report.result.num_left_out > 0) {
    text += fmt::format("  left out: {} samples that fill no batch of the model's size\n",
                        report.result.num_left_out);
  }
  text += DescribeFailures(report.result.failed);
  file.Write(tasks::ToJson(report.result.table));
  options.json.Print(text, [&] { return tasks::ToJson(report.result.table); });
}

}  // namespace

void AddCalibrateCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "calibrate", "Gather the statistics of activations that integer formats need, from samples.");
  const auto options = std::make_shared<CalibrateArguments>();
  command->add_option("model", options->model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  AddSampleOptions(*command, options->samples, Samples::kRequired);
  AddShardOption(*command, options->samples);
  AddMostFailuresOption(*command, options->request.most_failures);
  command->add_option("-o,--output", options->output, "the calibration file to write")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--batch", options->request.batch_size,
                   "number of samples read at once (default: 8); results do not depend on it")
      ->check(CLI::Range(1, kMostSamples))
      ->type_name("N");
  command->add_flag(
      "--per-channel", options->request.is_per_channel,
      "gather statistics of each channel for every input of matrix products and convolutions; "
      "default: only for inputs that constant weights multiply, which int8 weights and "
      "--smooth-quant need");
  AddConfigOptions(*command, options->config)
      ->description(
          "gather only the activations that this preset or format quantizes, which is faster "
          "(default: every float activation, so that the file fits any configuration)");
  AddTaskOption(*command, "as_is", options->request.preparation);
  AddTaskOption(*command, "disable_pass", options->request.disabled_passes);
  options->json.Add(*command, kTable);
  AddTaskOption(*command, "threads", options->request.num_threads);
  command->footer(ListPresets() +
                  "\nExamples:\n"
                  "  bitpress calibrate model.onnx --data photos --samples 100 -o stats.bpc \\\n"
                  "      --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n"
                  "  bitpress inspect stats.bpc\n");
  command->callback([options] { RunCalibrate(*options); });
}

void AddMergeCommand(CLI::App& program) {
  struct Files {
    std::vector<std::string> inputs;
    std::string output;
    size_t most_failures = tasks::kAnyNumber;
    JsonOption json;
  };
  CLI::App* const command = program.add_subcommand(
      "merge",
      "Add up calibration files, evaluation files, moments or journals of one "
      "model; the sum is exact in any order.");
  const auto files = std::make_shared<Files>();
  command
      ->add_option("files", files->inputs,
                   "the files of `bitpress calibrate` (.bpc), of `bitpress evaluate` (.bpe), of "
                   "`bitpress moments` (.bpm), of `bitpress tune`, or of `bitpress sensitivity "
                   "--shard`")
      ->required()
      ->type_name("FILE...");
  command->add_option("-o,--output", files->output, "the file to write; may be one of them")
      ->required()
      ->type_name("FILE");
  AddMostFailuresOption(*command, files->most_failures)
      ->description(
          "how many samples may have been left out in all, because they failed (default: any "
          "number)");
  files->json.Add(*command,
                  "the statistics, without histograms, the report of the evaluation, what the file "
                  "of moments holds, or the number of layers,");
  command->footer(
      "Examples:\n  bitpress merge monday.bpc tuesday.bpc -o all.bpc\n"
      "  bitpress merge part1.bpe part2.bpe -o all.bpe\n"
      "  bitpress merge part1.bpm part2.bpm -o all.bpm\n"
      "  bitpress merge part1.journal part2.journal -o plan.json.journal\n");
  command->callback([files] {
    std::vector<std::filesystem::path> paths;
    for (const std::string& input : files->inputs) paths.push_back(PathOf(input));
    const std::filesystem::path output = PathOf(files->output);
    tasks::JsonFile file(files->json.file());
    const auto show = [&](const std::string& text, const auto& report) {
      file.Write(ToJson(report));
      files->json.Print(fmt::format("{}:\n{}", files->output, text),
                        [&] { return ToJson(report); });
    };
    if (tasks::IsEvaluation(paths[0])) {
      const auto report =
          evaluate::ReportOf(tasks::MergeEvaluations(paths, output, files->most_failures));
      show(ToText(report), report);
    } else if (tasks::IsMoments(paths[0])) {
      const tasks::MomentsSummary sum = tasks::MergeMoments(paths, output);
      file.Write(ToJson(sum));
      files->json.Print(ToText(files->output, sum, false), [&] { return ToJson(sum); });
    } else if (tasks::IsSensitivityJournal(paths[0]) || tasks::IsLearned(paths[0])) {
      const bool is_learned = tasks::IsLearned(paths[0]);
      const size_t num_layers = is_learned ? tasks::MergeLearned(paths, output)
                                           : tasks::MergeSensitivities(paths, output);
      const nlohmann::ordered_json json = {{"bitpress_journal", 2}, {"num_layers", num_layers}};
      file.Write(json);
      files->json.Print(fmt::format("{}: {} layers\n", files->output, num_layers),
                        [&] { return json; });
    } else {
      const auto sum = tasks::MergeCalibrations(paths, output, files->most_failures);
      show(Summarize(sum), sum);
    }
  });
}

}  // namespace bitpress::apps
