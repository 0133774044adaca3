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
                  "what a layer may get: formats or presets, or float, joined by commas")
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--weight-candidates", options.weight_candidates,
                  "what its weights may get; then each side of a layer is chosen by itself")
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--activation-candidates", options.activation_candidates,
                  "what its activations may get")
      ->type_name("NAME[,NAME...]");
  AddSampleOptions(command, arguments.samples)->required();
  constexpr int kMost = 1'000'000'000;  // CLI11 would read a negative number as a large one
  command
      .add_option("--sensitivity-samples", options.num_sensitivity_samples,
                  "of them, the first so many measure the layers (default: 32)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  AddWordOption<search::Method>(
      command, "--method", options.method, search::kMethodWords,
      "exact: each candidate in each layer, the rest of the model run for it; fast: "
      "the error at the layer times a gain that is measured once a side; both: and how "
      "well they agree");
  AddConfigOptions(command, arguments.base)
      ->description(
          "the configuration of everything that is not chosen (default: the finest candidates)");
  AddThreadsOption(command, options.num_threads);
}

}  // namespace bitpress::apps
