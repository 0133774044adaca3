// Options that several commands share: those of the configuration (--config, --weights,
// --activations, --set, --rule, --as-is), of samples (--data and more), and --threads.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "data/source.h"
#include "graph/pass.h"
#include "plan/quant_config.h"
#include "rewrite/prepare.h"

namespace bitpress::apps {

// The values of the configuration's options.
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

  // Returns the configuration that the options describe. Options that change nothing are named in
  // `notices`. Throws Error(kInvalidArgument) with the nearest name.
  plan::QuantConfig Resolve(std::vector<std::string>* notices = nullptr) const;
  // Changes a configuration by all options but --config. Throws as Resolve.
  void Change(plan::QuantConfig& config, std::vector<std::string>* notices = nullptr) const;
  // Returns whether an option was given that changes what a plan decides. Fine-tuning does not.
  bool ChangesDecisions() const {
    return !weights.empty() || !activations.empty() || !smooth.empty() || !rules.empty() ||
           std::ranges::any_of(settings, [](const std::string& setting) {
             return plan::FindSetting(setting.substr(0, setting.find('='))).scope !=
                    plan::SettingScope::kFinetune;
           });
  }
  // Returns whether an option was given that changes the configuration.
  bool HasChanges() const {
    return ChangesDecisions() || !finetune.empty() || !settings.empty() ||
           !finetune_options.empty();
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

// Adds --check to a subcommand that writes a model; `is_checked` must outlive it.
void AddCheckOption(CLI::App& command, bool& is_checked);

// Return parts of help texts: the presets, the settings with their values, one a line, and the way
// to write rules.
std::string ListPresets();
std::string ListSettings();
std::string ListRules();

}  // namespace bitpress::apps
