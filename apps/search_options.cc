#include "search_options.h"

#include "word_option.h"

namespace bitpress::apps {

void SpaceArguments::Resolve(tasks::SpaceOptions& options) const {
  options.model = model;
  options.samples = samples.Spec();
  options.preparation = base.preparation();
  if (!base.config.empty()) {
    ConfigOptions named;
    named.config = base.config;
    options.base = named.Resolve();
  }
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
  AddSampleOptions(command, arguments.samples)->required();
  constexpr int kMost = 1'000'000'000;  // CLI11 would read a negative number as a large one
  command
      .add_option("--sensitivity-samples", options.num_sensitivity_samples,
                  "number of samples that layers are measured on, the first ones (default: 32)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  AddWordOption<search::Method>(
      command, "--method", options.method, search::kMethodWords,
      "the way to measure a layer. exact: run the rest of the model for each candidate; fast "
      "(default): measure the error at the layer and multiply it by a gain, which is measured "
      "once for its weights and once for its activations; both: measure both ways and compare");
  AddConfigOptions(command, arguments.base)
      ->description(
          "the configuration of all tensors that the candidates do not decide (default: the most "
          "accurate candidates)");
  AddThreadsOption(command, options.num_threads);
}

}  // namespace bitpress::apps
