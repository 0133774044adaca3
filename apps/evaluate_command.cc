// bitpress evaluate: measures accuracy, closeness to the float model, time and size.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/paths.h"
#include "command.h"
#include "config_options.h"
#include "evaluation_text.h"
#include "json_option.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/evaluate.h"
#include "tasks/json_file.h"
#include "word_option.h"

namespace bitpress::apps {
namespace {

using evaluate::EvaluationReport;

struct EvaluateArguments {
  std::optional<processors::ProcessorKind> processor;  // null: the kind of this machine
  std::string model, reference, output;
  JsonOption json;
  SampleArguments samples;
  tasks::EvaluateOptions request;
};

void RunEvaluate(EvaluateArguments& options) {
  tasks::EvaluateOptions& request = options.request;
  request.model = PathOf(options.model);
  request.reference = PathOf(options.reference);
  request.samples = options.samples.Spec();
  request.processor = options.processor;
  request.output = PathOf(options.output);
  // The file is opened first, so that a report that cannot be written costs no work.
  tasks::JsonFile file(options.json.file());
  EvaluationReport report;
  std::vector<data::FailedSample> failed;
  request.on_left_out = [&](const data::FailedSample& sample) { failed.push_back(sample); };
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Evaluate(request);
    request.progress = {};
    request.on_left_out = {};
  }
  file.Write(evaluate::ToJson(report));
  options.json.Print(ToText(report) + DescribeFailures(failed),
                     [&] { return evaluate::ToJson(report); });
}

}  // namespace

void AddEvaluateCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "evaluate", "Measure a model's accuracy, closeness to the float model, time and size.");
  const auto options = std::make_shared<EvaluateArguments>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  AddSampleOptions(*command, options->samples, Samples::kRequired);
  command->get_option("--labels")
      ->description(
          "a CSV file with the columns file,class; files that it does not list are not used "
          "(default: one folder for each class, in sorted order, if there are such folders)");
  command->add_option("--reference", options->reference, "the float model to compare with")
      ->type_name("MODEL");
  command
      ->add_option("-o,--output", options->output,
                   "an evaluation file to write (.bpe), for `bitpress merge`; samples run one at a "
                   "time then, no times are measured, and a task only if it is named")
      ->type_name("FILE");
  AddEvaluationTaskOption(*command, options->request.task);
  AddShardOption(*command, options->samples);
  AddMostFailuresOption(*command, options->request.most_failures);
  options->json.Add(*command);
  CLI::Option* const batch = command
                                 ->add_option("--batch", options->request.batch_size,
                                              "number of samples in one run (default: 20)")
                                 ->check(CLI::Range(1, kMostSamples))
                                 ->type_name("N");
  batch->excludes("--output");
  AddWordOption<std::optional<processors::ProcessorKind>>(
      *command, "--processor", options->processor, processors::kProcessorWords,
      "the processor to compute integer products for: here (default), vnni (x86 with VNNI) or "
      "no_vnni (x86 without); simulated if this machine is of the other kind");
  AddTaskOption(*command, "threads", options->request.num_threads);
  command->footer(
      "Example:\n"
      "  bitpress evaluate model_mx6.onnx --reference model.onnx --data photos --labels labels.csv "
      "\\\n      --image \"resize=256,crop=224,mean=0.498,std=0.502\" --json report.json\n"
      "  bitpress evaluate decoder_mx6.onnx --reference decoder.onnx --text news.txt --tokenizer "
      "tokenizer.json\n"
      "  bitpress evaluate model_mx6.onnx --reference model.onnx --data samples --shard 2/8 -o "
      "part2.bpe\n");
  command->callback([options] { RunEvaluate(*options); });
}

}  // namespace bitpress::apps
