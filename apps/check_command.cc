// bitpress check: says what ONNX Runtime on this machine does with a model.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "plan/target_profile.h"
#include "sample_options.h"
#include "target_text.h"
#include "task_option.h"
#include "tasks/check.h"
#include "tasks/json_file.h"

namespace bitpress::apps {
namespace {

struct CheckArguments {
  std::string model;
  SampleArguments samples;
  Target target = Target::kAutomatic;
  JsonOption json;
};

void FailOnBrokenRules(const std::vector<std::string>& broken, const CheckArguments& options) {
  if (broken.empty()) return;
  const std::string name = plan::ProfileOf(options.target).name;
  for (const std::string& rule : broken) fmt::print(stderr, "bitpress: {}: {}\n", name, rule);
  Fail(ErrorCode::kUnsupported, "'{}' breaks {} rules of target {}", options.model, broken.size(),
       name);
}

std::string DescribeAdvice(const std::vector<std::string>& advice) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, advice.size()); ++i) {
    text += fmt::format("  legal and slow: {}\n", advice[i]);
  }
  if (advice.size() > kMost) {
    text += fmt::format("  legal and slow: and {} more (--json has all)\n", advice.size() - kMost);
  }
  return text;
}

void RunCheck(CheckArguments& options) {
  tasks::JsonFile file(options.json.file());
  const deploy::TargetReport report = tasks::CheckTarget({.model = PathOf(options.model),
                                                          .target = options.target,
                                                          .samples = options.samples.Spec()});
  const auto json = [&] { return deploy::ToJson(report); };
  file.Write(json());
  constexpr size_t kAll = 1'000'000;
  options.json.Print(fmt::format("{}:\n{}{}", options.model, DescribeTarget(report, kAll, kAll),
                                 DescribeAdvice(report.advice)),
                     json);
  if (!report.is_run) {
    Fail(ErrorCode::kRuntime, "'{}' {}", options.model,
         !report.is_loaded   ? "does not load"
         : report.is_made_up ? "did not run on a made-up sample: give a real one (--data)"
                             : "does not run");
  }
  FailOnBrokenRules(report.broken_rules, options);
}

}  // namespace

void AddCheckCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "check", "Check that a model runs here, and list which operators compute on integers.");
  const auto options = std::make_shared<CheckArguments>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  AddDataOptions(*command, options->samples)
      ->description("run the first sample of this folder (default: a made-up sample)");
  AddTargetOption(*command, "--target", options->target,
                  "also check every tensor and node by the rules of a target");
  options->json.Add(*command);
  command->footer(
      "Where it can, ONNX Runtime replaces DequantizeLinear -> operator -> QuantizeLinear by one\n"
      "operator on integers. The report lists the operators that compute on integers, and those\n"
      "that compute in float, with the reason. The exit status is not zero if the model does not\n"
      "load or run.\n"
      "\nWith --target each tensor and node that breaks a rule of that target is named with the\n"
      "rule and its source, whoever quantized the model, and the exit status is not zero.\n"
      "\nExample:\n"
      "  bitpress check model_int8.onnx --json report.json\n"
      "  bitpress check model_int8.onnx --target openvino\n");
  command->callback([options] { RunCheck(*options); });
}

}  // namespace bitpress::apps
