// bitpress check: says what ONNX Runtime on this machine does with a model.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/paths.h"
#include "command.h"
#include "config_options.h"
#include "json_option.h"
#include "sample_options.h"
#include "target_text.h"
#include "tasks/check.h"
#include "tasks/json_file.h"

namespace bitpress::apps {
namespace {

struct CheckArguments {
  std::string model;
  SampleArguments samples;
  JsonOption json;
};

void RunCheck(CheckArguments& options) {
  tasks::JsonFile file(options.json.file());
  const deploy::TargetReport report =
      tasks::CheckTarget({.model = PathOf(options.model), .samples = options.samples.Spec()});
  file.Write(deploy::ToJson(report));
  constexpr size_t kAll = 1'000'000;
  options.json.Print(fmt::format("{}:\n{}", options.model, DescribeTarget(report, kAll, kAll)),
                     [&] { return deploy::ToJson(report); });
  if (!report.is_run) {
    Fail(ErrorCode::kRuntime, "'{}' {}", options.model,
         report.is_loaded ? "does not run" : "does not load");
  }
}

}  // namespace

void AddCheckCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "check", "Check that a model runs here, and list which operators compute on integers.");
  const auto options = std::make_shared<CheckArguments>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  AddDataOptions(*command, options->samples)
      ->description("run the first sample of this folder (default: a made-up sample)");
  options->json.Add(*command);
  command->footer(
      "Where it can, ONNX Runtime replaces DequantizeLinear -> operator -> QuantizeLinear by one\n"
      "operator on integers. The report lists the operators that compute on integers, and those\n"
      "that compute in float, with the reason. The exit status is not zero if the model does not\n"
      "load or run.\n"
      "\nExample:\n"
      "  bitpress check model_int8.onnx --json report.json\n");
  command->callback([options] { RunCheck(*options); });
}

}  // namespace bitpress::apps
