#include "search_options.h"

#include "base/paths.h"
#include "task_option.h"
#include "word_option.h"

namespace bitpress::apps {

void SpaceArguments::Resolve(tasks::SpaceOptions& options) {
  options.model = PathOf(model);
  options.samples = samples.Spec();
  if (!base.config.empty()) {
    ConfigOptions named;
    named.config = base.config;
    options.base = named.Resolve();
  }
  for (const std::string& variant : variants) {
    options.variants.push_back(search::ParseSettings(variant));
  }
  if (output_index >= 0) options.output_index = static_cast<size_t>(output_index);
  options.change_base = [this](plan::QuantConfig& config) { base.Change(config); };
}

void AddSpaceOptions(CLI::App& command, SpaceArguments& arguments, tasks::SpaceOptions& options) {
  command.add_option("model", arguments.model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command
      .add_option("--candidates", options.candidates,
                  "formats or presets that a layer may get, joined by commas; float is one of them")
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--weight-candidates", options.weight_candidates,
                  "formats that the weights of a layer may get; with this option, weights and "
                  "activations of a layer are chosen separately")
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--activation-candidates", options.activation_candidates,
                  "formats that the activations of a layer may get")
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--variant", arguments.variants,
                  "settings that a layer may have instead of those of --config, such as "
                  "\"activations=int8, weights=int8\"; all its other settings stay as they are. "
                  "It takes the place of candidates, and may be given several times")
      ->type_name("SETTINGS");
  command
      .add_option("--layer-types", options.selection.op_types,
                  "operator types of the layers that may change (default: all that multiply)")
      ->delimiter(',')
      ->type_name("TYPE[,TYPE...]");
  command
      .add_option("--layer-names", options.selection.names,
                  "name of a layer that may change (default: all); may be given several times")
      ->type_name("NODE");
  command
      .add_option("--kept-layers", options.selection.kept_names,
                  "name of a layer that stays as the configuration has it; may be given several "
                  "times")
      ->type_name("NODE");
  AddSampleOptions(command, arguments.samples, Samples::kRequired);
  constexpr int kMost = 1'000'000'000;  // CLI11 would read a negative number as a large one
  command
      .add_option(
          "--sensitivity-samples", options.num_sensitivity_samples,
          "number of samples that layers are measured on, the first ones (default: 32, or 2 of "
          "texts and tokens)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  AddWordOption<search::Method>(
      command, "--method", options.method, search::kMethodWords,
      "the way to measure a layer. exact: run the rest of the model for each candidate; fast "
      "(default): measure the error at the layer and multiply it by a gain, which is measured "
      "once for its weights and once for its activations; both: measure both ways and compare");
  command
      .add_option("--output-index", arguments.output_index,
                  "position of the only output of the model that losses are about, from 0 "
                  "(default: all outputs)")
      ->check(CLI::Range(0, kMost))
      ->type_name("N");
  AddConfigOptions(command, arguments.base)
      ->description(
          "the configuration of all tensors that the candidates do not decide (default: the most "
          "accurate candidates)");
  AddTaskOption(command, "as_is", options.preparation);
  AddTaskOption(command, "threads", options.num_threads);
}

}  // namespace bitpress::apps
