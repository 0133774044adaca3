#include "quantization_options.h"

#include "base/error.h"
#include "base/paths.h"
#include "task_option.h"
#include "tasks/plan.h"

namespace bitpress::apps {

void QuantizationArguments::CheckPlanAgrees() const {
  if (config.ChangesDecisions()) {
    throw CLI::ValidationError(
        "--plan holds the decisions already; --weights, --activations, --set and --rule cannot "
        "change them (edit the plan, or make another one). Only fine-tuning can be asked for");
  }
  if (config.config.empty()) return;
  const std::string wanted = config.Resolve().name;
  const std::string found = tasks::ReadPlan(request.plan_file).config.name;
  if (wanted != found) {
    Fail(ErrorCode::kInvalidArgument, "plan '{}' was made with --config {}, not {}",
         PathText(request.plan_file), found, wanted);
  }
}

void QuantizationArguments::Complete(std::vector<std::string>& notices) {
  request.samples = samples.Spec();
  if (request.plan_file.empty()) {
    if (config.config.empty() && !request.weights_from.empty()) config.config = "none";
    if (config.config.empty()) throw CLI::RequiredError("--config NAME or --plan FILE");
    request.config = config.Resolve(&notices);
  } else {
    CheckPlanAgrees();
    request.change_plan = [this, &notices](plan::QuantConfig& of_plan) {
      config.Change(of_plan, &notices);
    };
  }
}

namespace {

// Adds the options that are rows of bitpress/quantize_options.inc: those of the written model, or
// all others.
void AddRows(CLI::App& command, tasks::QuantizeOptions& request, bool are_of_writing) {
  tasks::VisitOptions(request, request, [&](const tasks::OptionRow& row, auto& value) {
    if (row.is_of_writing() == are_of_writing) AddTaskOption(command, row, value);
  });
}

}  // namespace

void AddWritingOptions(CLI::App& command, QuantizationArguments& arguments) {
  AddRows(command, arguments.request, /*are_of_writing=*/true);
}

void AddQuantizationOptions(CLI::App& command, QuantizationArguments& options,
                            const std::string& output) {
  command.add_option("model", options.request.model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command.add_option("-o,--output", options.request.output, output)->required()->type_name("FILE");
  AddConfigOptions(command, options.config);
  command
      .add_option("--plan", options.request.plan_file,
                  "use the decisions in this file of `bitpress plan`, instead of --config")
      ->type_name("FILE");
  AddSampleOptions(command, options.samples)
      ->description(
          "the folder with samples to gather statistics and to fine-tune with: photos, .npy or "
          ".npz arrays, or TensorProto .pb files");
  command.get_option("--samples")
      ->description(
          "most samples to use (default: 0, all for scales and the first 100 for fine-tuning)");
  AddRows(command, options.request, /*are_of_writing=*/false);
}

}  // namespace bitpress::apps
