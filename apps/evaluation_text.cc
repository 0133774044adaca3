#include "evaluation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "sample_options.h"
#include "target_text.h"

namespace bitpress::apps {
namespace {

using evaluate::EvaluationReport;

// "84.0 %"
std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

void AppendAccuracy(std::string& text, std::string_view name, const std::optional<double>& value,
                    const std::optional<double>& reference) {
  if (!value) return;
  text += fmt::format("{:<10} {}", name, Percent(*value));
  if (reference) text += fmt::format(" (reference {})", Percent(*reference));
  text += "\n";
}

// Returns whether top-5 may be less than 100 %. The classes are counted where there is a reference.
bool SaysTop5Something(const EvaluationReport& report) {
  constexpr uint64_t kFive = 5;
  const auto output =
      std::ranges::find(report.outputs, report.class_output, &evaluate::OutputReport::name);
  return output == report.outputs.end() || output->num_values > kFive * report.num_samples;
}

// " (reference 12.3)", or nothing.
std::string Reference(const std::optional<double>& value, std::string_view unit, int digits) {
  if (!value) return "";
  return fmt::format(" (reference {:.{}f}{}{})", *value, digits, unit.empty() ? "" : " ", unit);
}

std::string DescribeTimes(const EvaluationReport& report) {
  std::string text =
      fmt::format("{:<10} {:.1f} ms{} in batches of {}", "time", report.time_ms,
                  report.is_processor_time ? " of a processor" : "", report.batch_size);
  if (report.reference_time_ms) {
    text += fmt::format(" (reference {:.1f} ms)", *report.reference_time_ms);
  }
  if (report.time_ratio) text += fmt::format(", ratio {:.2f}", *report.time_ratio);
  return text + fmt::format("\n{:<10} {:.0f} ms{}\n", "load", report.load_ms,
                            Reference(report.reference_load_ms, "ms", 0));
}

std::string LanguageText(const evaluate::LanguageReport& report, bool has_times) {
  std::string text = fmt::format("{:<10} {:.2f}{} of {} tokens\n", "perplexity", report.perplexity,
                                 Reference(report.reference_perplexity, "", 2), report.num_tokens);
  if (report.mean_divergence) {
    text += fmt::format("{:<10} {:.4f} nats in the mean, {:.4f} or less for 99 % of the tokens\n",
                        "divergence", *report.mean_divergence, *report.divergence_99);
  }
  if (report.agreement) {
    text += fmt::format("{:<10} {} of the next tokens\n", "agreement", Percent(*report.agreement));
  }
  if (has_times) {
    text += fmt::format("{:<10} {:.1f} tokens/s{}\n", "prompts", report.prompt_tokens_per_s,
                        Reference(report.reference_prompt_tokens_per_s, "", 1));
  }
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

std::string TaskText(const evaluate::TaskReport& report) {
  std::string text = fmt::format("{:<10} {}{}{}\n", "task", report.task,
                                 report.how.empty() ? "" : ": ", report.how);
  for (const evaluate::TaskFigure& figure : report.figures) {
    text += fmt::format("{:<10} {} {:.4f}", "", figure.name, figure.value);
    if (figure.reference) text += fmt::format(" (reference {:.4f})", *figure.reference);
    text += "\n";
  }
  if (!report.why_no_loss.empty()) {
    text += fmt::format("{:<10} WARNING: it says nothing: {}\n", "", report.why_no_loss);
  }
  if (report.loss) {
    text += fmt::format("{:<10} {:.2f} % ({})\n", "loss", 100 * *report.loss, report.loss_name);
  }
  return text;
}

}  // namespace

std::string ToText(const EvaluationReport& report) {
  std::string text = fmt::format("{} samples", report.num_samples);
  if (report.num_labelled > 0) text += fmt::format(", {} with a label", report.num_labelled);
  text += "\n";
  text += DescribeLeftOut(report.left_out);
  AppendAccuracy(text, "top-1", report.top1, report.reference_top1);
  if (SaysTop5Something(report)) {
    AppendAccuracy(text, "top-5", report.top5, report.reference_top5);
  }
  if (report.language) text += LanguageText(*report.language, report.has_times);
  if (report.task) text += TaskText(*report.task);
  if (report.agreement) text += fmt::format("{:<10} {}\n", "agreement", Percent(*report.agreement));
  if (report.expected_top1) {
    text += fmt::format("{:<10} top-1 {} by the reference's own probabilities (reference {})\n",
                        "expected", Percent(*report.expected_top1),
                        Percent(*report.reference_expected_top1));
  }
  for (const evaluate::HeadReport& head : report.heads) {
    if (report.heads.size() == 1 && !report.task && report.class_output.empty()) break;
    text +=
        fmt::format("{:<10} {:.2f} % at output '{}' ({})\n", "loss", 100 * head.loss, head.output,
                    head.loss_name == "noise" ? "energy of the error" : head.loss_name);
  }
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
                      processors::DescribeProcessor(report.processor.processor),
                      report.processor.is_simulated ? ", simulated here" : "");
  text += DescribeProcessors(report.processor, 0, report.sqnr_db);
  if (report.depends_on_processor && !report.has_times) {
    text += fmt::format(
        "{:<10} integer products can saturate without VNNI; evaluate without -o "
        "measures by how much\n",
        "warning");
  }
  if (report.has_times) text += DescribeTimes(report);
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

}  // namespace bitpress::apps
