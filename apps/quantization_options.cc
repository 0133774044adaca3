#include "quantization_options.h"

#include <filesystem>

#include "base/error.h"
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
  const std::string found = tasks::ReadPlan(plan_file).config.name;
  if (wanted != found) {
    Fail(ErrorCode::kInvalidArgument, "plan '{}' was made with --config {}, not {}", plan_file,
         found, wanted);
  }
}

void QuantizationArguments::Fill(tasks::QuantizeOptions& request,
                                 std::vector<std::string>& notices) {
  request.model = model;
  request.output = output;
  request.plan_file = plan_file;
  request.preparation = config.preparation();
  request.disabled_passes = ToPassNames(disabled_passes);
  request.calibration = calibration;
  request.cache_scales = cache_scales;
  request.samples = samples.Spec();
  request.num_threads = num_threads;
  if (plan_file.empty()) {
    if (config.config.empty()) throw CLI::RequiredError("--config NAME or --plan FILE");
    request.config = config.Resolve(&notices);
  } else {
    CheckPlanAgrees();
    request.change_plan = [this, &notices](plan::QuantConfig& of_plan) {
      config.Change(of_plan, &notices);
    };
  }
}

void AddQuantizationOptions(CLI::App& command, QuantizationArguments& options,
                            const std::string& output) {
  command.add_option("model", options.model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command.add_option("-o,--output", options.output, output)->required()->type_name("FILE");
  AddConfigOptions(command, options.config);
  command
      .add_option("--plan", options.plan_file,
                  "use the decisions in this file of `bitpress plan`, instead of --config")
      ->type_name("FILE");
  command
      .add_option("--calibration", options.calibration,
                  "the statistics of activations for integer formats: a file of `bitpress "
                  "calibrate`")
      ->type_name("FILE");
  command
      .add_option("--kv-scales", options.cache_scales,
                  "the scales of key-value caches of integers (kv_cache=int8): a JSON file as ONNX "
                  "Runtime GenAI's kv_cache_scale_file, instead of samples")
      ->type_name("FILE");
  AddSampleOptions(command, options.samples)
      ->description(
          "the folder with samples to gather statistics and to fine-tune with: photos, .npy or "
          ".npz arrays, or TensorProto .pb files");
  command.get_option("--samples")
      ->description(
          "most samples to use (default: 0, all for scales and the first 100 for fine-tuning)");
  AddPassOption(command, options.disabled_passes);
  AddThreadsOption(command, options.num_threads);
}

}  // namespace bitpress::apps
