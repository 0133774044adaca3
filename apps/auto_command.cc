// bitpress auto: from a float model to the file that suits it, and bitpress autotune, which takes
// the first configuration that loses little enough.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/messages.h"
#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/auto.h"

namespace bitpress::apps {
namespace {

constexpr int kMostTrials = 1'000'000'000;  // CLI11 would read a negative number as a large one

struct AutoArguments {
  std::string model, output, configs, page, budget;
  bool has_no_page = false;
  JsonOption json;
  SampleArguments samples = {.limit = 100};
  SampleArguments validation;
  tasks::AutoOptions request;
};

std::string MeasureName(const std::string& measure) {
  return measure == "noise" ? "energy of the error" : measure;
}

// Returns a row of the table: "INT8   0.40 %   4.91 MB   26 %   0.48".
std::string DescribeTrial(const tasks::AutoTrial& trial, const tasks::AutoReport& report) {
  if (!trial.error.empty()) return fmt::format("  {:<28} {}\n", trial.config, trial.error);
  const std::string loss = trial.loss ? fmt::format("{:.2f} %", 100 * *trial.loss) : "-";
  const std::string time = trial.time_ratio ? fmt::format("{:.2f}", *trial.time_ratio) : "-";
  const double share = static_cast<double>(trial.file_bytes) /
                       static_cast<double>(std::max<uint64_t>(1, report.float_bytes));
  const std::string missed =
      trial.keeps_limits ? "" : fmt::format("   misses: {}", trial.limits_missed);
  return fmt::format("{} {:<28} {:>10} {:>10} {:>5.0f} % {:>8}{}\n", trial.keeps_limits ? '+' : ' ',
                     trial.config, loss, HumanBytes(trial.file_bytes), 100 * share, time, missed);
}

// Returns what the float model reaches against labels: "float model: top-1 95.1 %". Figures that
// are low already there tell that photos or labels are not as the model needs them.
std::string DescribeFloat(const evaluate::EvaluationReport& evaluation) {
  std::vector<std::string> figures;
  if (evaluation.reference_top1) {
    figures.push_back(fmt::format("top-1 {:.1f} %", 100 * *evaluation.reference_top1));
  }
  if (evaluation.task) {
    for (const evaluate::TaskFigure& figure : evaluation.task->figures) {
      if (figure.reference)
        figures.push_back(fmt::format("{} {:.4g}", figure.name, *figure.reference));
    }
  }
  return figures.empty() ? "" : fmt::format("float model: {}\n", Join(figures, ", "));
}

// Returns what is measured: ", measured on 32 samples by character errors (text: CTC, blank 0)".
std::string DescribeMeasure(const evaluate::EvaluationReport& evaluation,
                            const std::string& measure) {
  std::string text = fmt::format(", measured on {} by {}",
                                 WithNoun(evaluation.num_samples, "sample"), MeasureName(measure));
  if (evaluation.task && evaluation.task->loss_name == measure) {
    text += fmt::format(" ({}{}{})", evaluation.task->task,
                        evaluation.task->how.empty() ? "" : ": ", evaluation.task->how);
  }
  const size_t num_others = evaluation.heads.size();
  if (measure == "noise") {
    if (num_others > 1) text += fmt::format(" of the worst of {} outputs", num_others);
  } else if (num_others > 0) {
    text += fmt::format(", and {} by what {}", WithNoun(num_others, "other output"),
                        num_others == 1 ? "it loses" : "they lose");
  }
  return text;
}

// Returns what the times are: evaluate and auto have other batches by default.
std::string DescribeBatches(const evaluate::EvaluationReport& evaluation) {
  return fmt::format("times of batches of {}{}\n", evaluation.batch_size,
                     evaluation.is_processor_time ? " on one thread, of a processor" : "");
}

std::string DescribeHead(const tasks::AutoReport& report) {
  const auto& evaluation = report.trials[0].evaluation;
  std::string text = fmt::format("{} network, {}{}\n",
                                 WordOf<ops::NetworkKind>(ops::kNetworkKindWords, report.network),
                                 HumanBytes(report.float_bytes),
                                 evaluation ? DescribeMeasure(*evaluation, report.measure) : "");
  if (evaluation) text += DescribeFloat(*evaluation) + DescribeBatches(*evaluation);
  return text + fmt::format("  {:<28} {:>10} {:>10} {:>7} {:>8}   (+: {})\n", "configuration",
                            "loss", "bytes", "of float", "time", report.goals.limits.Text());
}

// Returns why a trial that keeps the limits was chosen.
std::string DescribeWant(const tasks::AutoReport& report) {
  switch (report.goals.want) {
    case tasks::Want::kBalanced:
      for (const tasks::AutoTrial& trial : report.trials) {
        if (!trial.keeps_limits || trial.file_bytes >= report.trials[report.chosen].file_bytes) {
          continue;
        }
        return "clearly faster than the smallest of those that keep the limits, and within 5 % of "
               "its size";
      }
      return "the smallest of those that keep the limits";
    case tasks::Want::kSmaller:
      return "the smallest of those that keep the limits";
    case tasks::Want::kFaster:
      return "the fastest of those that keep the limits";
    case tasks::Want::kClosest:
      return "the one that loses least of those that keep the limits";
    case tasks::Want::kFirst:
      return "the first that keeps the limits";
  }
  return "";
}

std::string DescribeChoice(const AutoArguments& options, const tasks::AutoReport& report) {
  const tasks::AutoTrial& chosen = report.trials[report.chosen];
  std::string text = fmt::format("{}: {}", options.output, chosen.config);
  if (chosen.loss) {
    text += fmt::format(", loss {:.2f} % ({})", 100 * *chosen.loss, MeasureName(report.measure));
  }
  text += fmt::format(", {}", HumanBytes(chosen.file_bytes));
  if (chosen.time_ratio) text += fmt::format(", time {:.2f} of float", *chosen.time_ratio);
  text += "\n";
  if (report.is_tolerable) {
    text += fmt::format("  why: {}\n", DescribeWant(report));
  } else {
    text += fmt::format("  none keeps {}: this is the best, it misses: {}\n",
                        report.goals.limits.Text(), chosen.limits_missed);
  }
  const std::string page = PathText(options.request.page);
  if (!page.empty()) text += fmt::format("  page: {}\n", page);
  if (!chosen.command.empty()) text += fmt::format("  again: {}\n", chosen.command);
  for (const std::string& note : report.notes) {
    text += fmt::format("  note: {}\n", SpellOptions(note, Spelt));
  }
  return text;
}

// Returns the options of the samples as they may be typed again.
std::string SampleWords(const SampleArguments& samples) {
  std::string words;
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {} {}", option, ShellQuoted(value));
  };
  add("--data", samples.data);
  add("--image", samples.image);
  add("--tokens", samples.tokens);
  if (!samples.text.empty()) words += " --text";
  for (const std::string& file : samples.text) words += " " + ShellQuoted(file);
  if (samples.lines) words += " --lines";
  add("--tokenizer", samples.tokenizer);
  add("--encoding", samples.encoding);
  if (samples.sequence > 0) add("--sequence", fmt::format("{}", samples.sequence));
  if (samples.whole_items) words += " --whole-items";
  if (samples.is_given() && samples.limit > 0) add("--samples", fmt::format("{}", samples.limit));
  return std::string(Trim(words));
}

void RunAuto(AutoArguments& options) {
  tasks::AutoOptions& request = options.request;
  request.model = PathOf(options.model);
  request.output = PathOf(options.output);
  request.report = options.json.file();
  request.samples = options.samples.Spec();
  request.sample_words = SampleWords(options.samples);
  request.validation = options.validation.Spec();
  request.validation.image = options.samples.image;
  if (request.validation.is_given() && !options.samples.labels.empty() &&
      options.validation.labels.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "--labels are those of --data, and the samples of --validation are measured: give their "
         "labels (--validation-labels)");
  }
  if (!options.budget.empty()) request.limits = tasks::ParseLimits(options.budget);
  for (const std::string& name : SplitOutsideParentheses(options.configs, ",")) {
    ConfigOptions config;
    config.config = std::string(Trim(name));
    request.candidates.push_back({config.config, config.Resolve()});
  }
  tasks::AutoReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    request.on_trial = [&](const tasks::AutoReport& tried) {
      if (options.json.is_printed()) return;
      bar.Clear();
      if (tried.trials.size() == 1) Print(DescribeHead(tried));
      Print(DescribeTrial(tried.trials.back(), tried));
    };
    report = tasks::Auto(request);
    request.progress = {};
    request.on_trial = {};
  }
  options.json.Print(DescribeChoice(options, report), [&] { return tasks::ToJson(report); });
}

// Adds what both commands have.
void AddCommonOptions(CLI::App& command, AutoArguments& options, Samples are) {
  command.add_option("model", options.model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command.add_option("-o,--output", options.output, "the quantized model to write")
      ->required()
      ->type_name("FILE");
  AddSampleOptions(command, options.samples, are);
  command.get_option("--samples")
      ->description("most samples for ranges and fine-tuning (default: 100; 0: all)");
  command
      .add_option("--validation", options.validation.data,
                  "the folder with the samples to measure with (default: that of --data)")
      ->type_name("DIR");
  command
      .add_option("--validation-labels", options.validation.labels,
                  "a CSV file with the columns file,class for --validation")
      ->type_name("CSV");
  AddEvaluationTaskOption(command, options.request.task);
  options.json.Add(command, "the measurements");
  AddTaskOption(command, "as_is", options.request.preparation);
  AddTaskOption(command, "check", options.request.is_checked);
  AddTaskOption(command, "threads", options.request.num_threads);
}

void AddValidationSamples(CLI::App& command, AutoArguments& options, const std::string& preset) {
  command
      .add_option("--validation-samples", options.validation.limit,
                  fmt::format("most samples to measure with (default: {})", preset))
      ->check(CLI::Range(0, kMostSamples))
      ->type_name("N");
}

void AddConfigs(CLI::App& command, AutoArguments& options, const std::string& preset) {
  command
      .add_option("--configs", options.configs,
                  fmt::format("the configurations to try, in this order: presets, formats or .json "
                              "files, joined by commas (default: {})",
                              preset))
      ->type_name("NAME[,NAME...]");
}

}  // namespace

void AddAutoCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "auto", "From a model to the right file: try what suits it, measure, and write the best.");
  const auto options = std::make_shared<AutoArguments>();
  options->request.batch_size = 1;
  AddCommonOptions(*command, *options, Samples::kOptional);
  command->get_option("--data")->description(
      "the folder with the samples: photos, .npy or .npz arrays, or TensorProto .pb files "
      "(default: none; only what needs no samples is tried then, and no loss is measured)");
  AddValidationSamples(*command, *options, "as many as ten seconds allow, 32 to 1000");
  AddWordOption<tasks::Want>(
      *command, "--want", options->request.want, Words<tasks::Want>(tasks::kWantWords).first(4),
      "what the file shall be, within the limits. balanced (default): the smallest that is not "
      "slower than the float model, or a clearly faster one within 5 % of its size; smaller: the "
      "smallest; faster: the fastest; closest: the one "
      "that loses least, of equal ones the one whose outputs are closest");
  command
      ->add_option("--budget", options->budget,
                   "limits, joined by commas: bytes<=3MB or bytes<=50% (of the float file), "
                   "time<=0.8 (over the float model's), loss<=1% (default: loss<=1%, "
                   "bytes<=100%, and time<=1.05 where the file shall not be slower)")
      ->type_name("LIMITS");
  AddConfigs(*command, *options, "those that suit the network");
  AddTaskOption(*command, "target", options->request.target);
  command
      ->add_option("--report", options->page,
                   "the HTML file with the page about the model (default: that of the output, with "
                   ".html in place of .onnx)")
      ->type_name("FILE");
  command->add_flag("--no-report", options->has_no_page, "write no page");
  command
      ->add_option("--batch", options->request.batch_size,
                   "number of samples in one run of a measurement (default: 1)")
      ->check(CLI::Range(1, kMostSamples))
      ->type_name("N");
  command->footer(
      "Examples:\n"
      "  bitpress auto model.onnx -o best.onnx\n"
      "  bitpress auto model.onnx -o best.onnx --data photos --labels labels.csv \\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n"
      "  bitpress auto model.onnx -o small.onnx --data samples --want smaller --budget "
      "\"loss<=2%\"\n"
      "  bitpress auto decoder.onnx -o best.onnx --text news.txt --tokenizer tokenizer.json\n");
  command->callback([options] {
    // A file on standard output has no place for a page beside it.
    const bool has_place = !options->page.empty() || !IsStandardStream(options->output);
    if (!options->has_no_page && has_place) {
      options->request.page = options->page.empty()
                                  ? PathOf(options->output).replace_extension(".html")
                                  : PathOf(options->page);
    }
    RunAuto(*options);
  });
}

void AddAutotuneCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "autotune",
      "Find the cheapest configuration that keeps the accuracy, by trying them in turn.");
  const auto options = std::make_shared<AutoArguments>();
  options->request.want = tasks::Want::kFirst;
  AddCommonOptions(*command, *options, Samples::kRequired);
  AddValidationSamples(*command, *options, "0, all");
  command
      ->add_option(
          "--tolerable-loss", options->request.tolerable_loss,
          "the loss that is allowed, as a share of the float model's top-1 accuracy (default: "
          "0.01). Without labels, accuracy is how often both models rank the same class first; "
          "for texts, the loss is how much the perplexity rises; without classes, it is the energy "
          "of the error over that of the outputs")
      ->type_name("X");
  AddConfigs(*command, *options,
             "INT8, INT8_ADAROUND, INT8_ADAQUANT, INT8 with uint16 activations, BF16");
  command
      ->add_option("--max-trials", options->request.max_trials,
                   "most configurations to try (default: 100)")
      ->check(CLI::Range(1, kMostTrials))
      ->type_name("N");
  command->footer(
      "Example:\n"
      "  bitpress autotune model.onnx -o best.onnx --data photos --labels labels.csv \\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\" --tolerable-loss 0.01\n"
      "`bitpress auto` chooses by size, time and loss.\n");
  command->callback([options] { RunAuto(*options); });
}

}  // namespace bitpress::apps
