// bitpress evaluate: measures accuracy, closeness to the float model, time and size.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "target_text.h"
#include "tasks/evaluate.h"
#include "tasks/json_file.h"
#include "word_option.h"

namespace bitpress::apps {
namespace {

using evaluate::EvaluationReport;

// Upper bound of options: CLI11 would read a negative number as a very large one.
constexpr int kMostSamples = 1'000'000'000;

// "84.0 %"
std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

void AppendAccuracy(std::string& text, std::string_view name, const std::optional<double>& value,
                    const std::optional<double>& reference) {
  if (!value) return;
  text += fmt::format("{:<10} {}", name, Percent(*value));
  if (reference) text += fmt::format(" (reference {})", Percent(*reference));
  text += "\n";
}

// " (reference 12.3)", or nothing.
std::string Reference(const std::optional<double>& value, std::string_view unit, int digits) {
  if (!value) return "";
  return fmt::format(" (reference {:.{}f}{}{})", *value, digits, unit.empty() ? "" : " ", unit);
}

std::string ToText(const evaluate::LanguageReport& report) {
  std::string text = fmt::format("{:<10} {:.2f}{} of {} tokens\n", "perplexity", report.perplexity,
                                 Reference(report.reference_perplexity, "", 2), report.num_tokens);
  if (report.mean_divergence) {
    text += fmt::format("{:<10} {:.4f} nats in the mean, {:.4f} or less for 99 % of the tokens\n",
                        "divergence", *report.mean_divergence, *report.divergence_99);
  }
  if (report.agreement) {
    text += fmt::format("{:<10} {} of the next tokens\n", "agreement", Percent(*report.agreement));
  }
  text += fmt::format("{:<10} {:.1f} tokens/s{}\n", "prompts", report.prompt_tokens_per_s,
                      Reference(report.reference_prompt_tokens_per_s, "", 1));
  if (const std::optional<evaluate::DecodingReport>& decoding = report.decoding) {
    text += fmt::format("{:<10} {:.1f} tokens/s{}, {} tokens behind a prompt of {}\n", "decoding",
                        decoding->tokens_per_s, Reference(decoding->reference_tokens_per_s, "", 1),
                        decoding->num_tokens, decoding->prompt_length);
    if (decoding->num_same) {
      text += fmt::format("{:<10} the first {} of {} decoded tokens are the reference's\n",
                          "same text", *decoding->num_same, decoding->num_tokens);
    }
  }
  return text;
}

std::string ToText(const EvaluationReport& report) {
  std::string text = fmt::format("{} samples", report.num_samples);
  if (report.num_labelled > 0) text += fmt::format(", {} with a label", report.num_labelled);
  text += "\n";
  AppendAccuracy(text, "top-1", report.top1, report.reference_top1);
  AppendAccuracy(text, "top-5", report.top5, report.reference_top5);
  if (report.language) text += ToText(*report.language);
  if (report.agreement) text += fmt::format("{:<10} {}\n", "agreement", Percent(*report.agreement));
  if (report.outputs_identical) {
    text += fmt::format("{:<10} infinite: the outputs are identical\n", "SQNR");
  } else if (report.sqnr_db) {
    text += fmt::format("{:<10} {:.2f} dB\n", "SQNR", *report.sqnr_db);
  }
  if (report.cosine) text += fmt::format("{:<10} {:.6f}\n", "cosine", *report.cosine);
  if (report.num_nonfinite_values > 0) {
    text += fmt::format("{:<10} {} values of the outputs are NaN or infinite\n", "warning",
                        report.num_nonfinite_values);
  }
  text += fmt::format("{:<10} {}{}\n", "processor",
                      evaluate::DescribeProcessor(report.processor.processor),
                      report.processor.is_simulated ? ", simulated here" : "");
  text += DescribeProcessors(report.processor, 0);
  text +=
      fmt::format("{:<10} {:.1f} ms in batches of {}", "time", report.time_ms, report.batch_size);
  if (report.reference_time_ms) {
    text += fmt::format(" (reference {:.1f} ms)", *report.reference_time_ms);
  }
  if (report.time_ratio) text += fmt::format(", ratio {:.2f}", *report.time_ratio);
  text += fmt::format("\n{:<10} {:.0f} ms{}\n", "load", report.load_ms,
                      Reference(report.reference_load_ms, "ms", 0));
  if (report.memory_bytes) {
    text += fmt::format("{:<10} {}", "memory", HumanBytes(*report.memory_bytes));
    if (report.reference_memory_bytes) {
      text += fmt::format(" (reference {})", HumanBytes(*report.reference_memory_bytes));
    }
    text += "\n";
  }
  text += fmt::format("{:<10} {}", "size", HumanBytes(report.file_bytes));
  if (report.reference_file_bytes) {
    text += fmt::format(" (reference {})", HumanBytes(*report.reference_file_bytes));
  }
  return text + "\n";
}

struct Options {
  std::optional<evaluate::ProcessorKind> processor;  // null: the kind of this machine
  std::string model, reference;
  JsonOption json;
  SampleArguments samples;
  tasks::EvaluateOptions request;
};

void Run(Options& options) {
  tasks::EvaluateOptions& request = options.request;
  request.model = options.model;
  request.reference = options.reference;
  request.samples = options.samples.Spec();
  request.processor = options.processor;
  // The file is opened first, so that a report that cannot be written costs no work.
  tasks::JsonFile file(options.json.file());
  EvaluationReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Evaluate(request);
    request.progress = {};
  }
  file.Write(evaluate::ToJson(report));
  options.json.Print(ToText(report), [&] { return evaluate::ToJson(report); });
}

}  // namespace

void AddEvaluateCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "evaluate", "Measure a model's accuracy, closeness to the float model, time and size.");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  AddSampleOptions(*command, options->samples, Samples::kRequired);
  command->get_option("--labels")
      ->description(
          "a CSV file with the columns file,class; files that it does not list are not used "
          "(default: one folder for each class, in sorted order, if there are such folders)");
  command->add_option("--reference", options->reference, "the float model to compare with")
      ->type_name("MODEL");
  options->json.Add(*command);
  command
      ->add_option("--batch", options->request.batch_size,
                   "number of samples in one run (default: 20)")
      ->check(CLI::Range(1, kMostSamples))
      ->type_name("N");
  AddWordOption<std::optional<evaluate::ProcessorKind>>(
      *command, "--processor", options->processor, evaluate::kProcessorWords,
      "the processor to compute integer products for: here (default), vnni (x86 with VNNI) or "
      "no_vnni (x86 without); simulated if this machine is of the other kind");
  AddThreadsOption(*command, options->request.num_threads);
  command->footer(
      "Example:\n"
      "  bitpress evaluate model_mx6.onnx --reference model.onnx --data photos --labels labels.csv "
      "\\\n      --image \"resize=256,crop=224,mean=0.498,std=0.502\" --json report.json\n"
      "  bitpress evaluate decoder_mx6.onnx --reference decoder.onnx --text news.txt --tokenizer "
      "tokenizer.json\n");
  command->callback([options] { Run(*options); });
}

}  // namespace bitpress::apps
