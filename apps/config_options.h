// The options that `plan` and `quantize` share: --config, --weights, --activations, --set, --rule,
// --as-is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "data/source.h"
#include "graph/pass.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"

namespace bitpress::apps {

struct ConfigOptions {
  std::string config;
  std::string weights;
  std::string activations;
  std::string finetune;
  std::string smooth;
  std::vector<std::string> finetune_options;
  std::vector<std::string> settings;
  std::vector<std::string> rules;
  bool as_is = false;

  // The configuration they mean; what of them changes nothing goes to `notices`. Throws
  // Error(kInvalidArgument) with the nearest name.
  plan::QuantConfig Resolve(std::vector<std::string>* notices = nullptr) const;
  // What the options besides --config do to one. Throws as Resolve.
  void Change(plan::QuantConfig& config, std::vector<std::string>* notices = nullptr) const;
  // Whether one of the options that change the configuration was given.
  bool HasChanges() const {
    return !weights.empty() || !activations.empty() || !finetune.empty() || !smooth.empty() ||
           !settings.empty() || !rules.empty() || !finetune_options.empty();
  }
  rewrite::Preparation preparation() const {
    return as_is ? rewrite::Preparation::kAsIs : rewrite::Preparation::kOptimize;
  }
};

// Adds the options to a subcommand; `options` must outlive it. Returns the one for --config.
CLI::Option* AddConfigOptions(CLI::App& command, ConfigOptions& options);

// Adds --disable-pass to a subcommand; `names` must outlive it.
void AddPassOption(CLI::App& command, std::vector<std::string>& names);
inline graph::PassNames ToPassNames(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// Adds --threads to a subcommand; `num_threads` must outlive it.
void AddThreadsOption(CLI::App& command, size_t& num_threads);

// Where samples come from, as the command line says it.
struct SampleArguments {
  std::string data, labels, image;
  size_t limit = 0;

  data::SampleSpec Spec() const {
    return {.folder = data, .labels_csv = labels, .image = image, .opener = {}, .limit = limit};
  }
};

// Adds --data, --labels and --image (and --samples), which say where samples come from; `samples`
// must outlive the subcommand. Return the one for --data.
CLI::Option* AddDataOptions(CLI::App& command, SampleArguments& samples);
CLI::Option* AddSampleOptions(CLI::App& command, SampleArguments& samples);

// For help texts: the presets, the settings with their values, one a line, and how rules are
// written.
std::string ListPresets();
std::string ListSettings();
std::string ListRules();

}  // namespace bitpress::apps
