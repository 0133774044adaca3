// bitpress autotune: finds the first configuration that loses little enough.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/autotune.h"

namespace bitpress::apps {
namespace {

struct AutotuneArguments {
  std::string model, output, configs;
  JsonOption json;
  SampleArguments samples = {.limit = 100};
  SampleArguments validation;
  tasks::AutotuneOptions request;
};

std::string Summarize(const AutotuneArguments& options, const tasks::AutotuneReport& report) {
  const tasks::AutotuneTrial& chosen = report.trials[report.chosen];
  std::string text = fmt::format("{}: {}, loss {:.2f} % ({}), {}\n", options.output, chosen.config,
                                 100 * chosen.loss,
                                 report.measure == "noise" ? "energy of the error" : report.measure,
                                 HumanBytes(chosen.evaluation.file_bytes));
  for (size_t i = 0; i < report.trials.size(); ++i) {
    const tasks::AutotuneTrial& trial = report.trials[i];
    const char mark = i == report.chosen ? '*' : ' ';
    if (!trial.error.empty()) {
      text += fmt::format("{} {}: {}\n", mark, trial.config, trial.error);
      continue;
    }
    text += fmt::format("{} {}: loss {:.2f} %", mark, trial.config, 100 * trial.loss);
    if (trial.evaluation.sqnr_db) {
      text += fmt::format(", SQNR {:.2f} dB", *trial.evaluation.sqnr_db);
    }
    if (trial.evaluation.time_ratio) {
      text += fmt::format(", time {:.2f} of float", *trial.evaluation.time_ratio);
    }
    text += fmt::format(", {}\n", HumanBytes(trial.evaluation.file_bytes));
  }
  if (!report.is_tolerable) {
    text += fmt::format("  none loses at most {:g} %: this is the best\n",
                        100 * options.request.tolerable_loss);
  }
  return text;
}

void RunAutotune(AutotuneArguments& options) {
  tasks::AutotuneOptions& request = options.request;
  request.model = PathOf(options.model);
  request.output = PathOf(options.output);
  request.report = options.json.file();
  request.samples = options.samples.Spec();
  request.validation = options.validation.Spec();
  request.validation.image = options.samples.image;
  for (const std::string& name : SplitOutsideParentheses(options.configs, ",")) {
    ConfigOptions config;
    config.config = std::string(Trim(name));
    request.configs.push_back(config.Resolve());
  }
  tasks::AutotuneReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Autotune(request);
    request.progress = {};
  }
  options.json.Print(Summarize(options, report), [&] { return tasks::ToJson(report); });
}

}  // namespace

void AddAutotuneCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "autotune",
      "Find the cheapest configuration that keeps the accuracy, by trying them in turn.");
  const auto options = std::make_shared<AutotuneArguments>();
  command->add_option("model", options->model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command->add_option("-o,--output", options->output, "the quantized model to write")
      ->required()
      ->type_name("FILE");
  AddSampleOptions(*command, options->samples, Samples::kRequired);
  command->get_option("--samples")
      ->description("most samples for ranges and fine-tuning (default: 100; 0: all)");
  command
      ->add_option("--validation", options->validation.data,
                   "the folder with the samples to measure with (default: that of --data)")
      ->type_name("DIR");
  command
      ->add_option("--validation-labels", options->validation.labels,
                   "a CSV file with the columns file,class for --validation")
      ->type_name("CSV");
  constexpr int kMost = 1'000'000'000;  // CLI11 would read a negative number as a large one
  command
      ->add_option("--validation-samples", options->validation.limit,
                   "most samples to measure with (default: 0, all)")
      ->check(CLI::Range(0, kMost))
      ->type_name("N");
  command
      ->add_option(
          "--tolerable-loss", options->request.tolerable_loss,
          "the loss that is allowed, as a share of the float model's top-1 accuracy (default: "
          "0.01). Without labels, accuracy is how often both models rank the same class first; "
          "without classes, the loss is the energy of the error over that of the outputs")
      ->type_name("X");
  command
      ->add_option("--configs", options->configs,
                   "the configurations to try, in this order: presets, formats or .json files, "
                   "joined by commas (default: INT8, INT8_ADAROUND, INT8_ADAQUANT, INT8 with "
                   "uint16 activations, BF16)")
      ->type_name("NAME[,NAME...]");
  command
      ->add_option("--max-trials", options->request.max_trials,
                   "most configurations to try (default: 100)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  options->json.Add(*command, "the measurements");
  AddTaskOption(*command, "as_is", options->request.preparation);
  AddTaskOption(*command, "check", options->request.is_checked);
  AddTaskOption(*command, "threads", options->request.num_threads);
  command->footer(
      "Example:\n"
      "  bitpress autotune model.onnx -o best.onnx --data photos --labels labels.csv \\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\" --tolerable-loss 0.01\n");
  command->callback([options] { RunAutotune(*options); });
}

}  // namespace bitpress::apps
