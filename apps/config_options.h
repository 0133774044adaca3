// The options of the configuration that several commands share (--config, --weights, --activations,
// --set, --rule and more), and texts about configurations.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cli.h"
#include "plan/quant_config.h"

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
};

// Adds the options to a subcommand; `options` must outlive it. Returns the one for --config.
CLI::Option* AddConfigOptions(CLI::App& command, ConfigOptions& options);

// Return parts of help texts: the presets, the settings with their values, one a line, and the way
// to write rules.
std::string ListPresets();
std::string ListSettings();
std::string ListRules();

}  // namespace bitpress::apps
