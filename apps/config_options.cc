#include "config_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/words.h"
#include "ops/layer_roles.h"
#include "tasks/plan.h"

namespace bitpress::apps {

plan::QuantConfig ConfigOptions::Resolve(std::vector<std::string>* notices) const {
  plan::QuantConfig resolved = tasks::ConfigNamed(config);
  Change(resolved, notices);
  return resolved;
}

void ConfigOptions::Change(plan::QuantConfig& resolved, std::vector<std::string>* notices) const {
  for (const std::string& setting : settings) plan::ApplySetting(resolved, setting);
  if (!weights.empty()) plan::ApplySetting(resolved, "weights", weights);
  if (!activations.empty()) plan::ApplySetting(resolved, "activations", activations);
  for (const std::string& rule : rules) resolved.rules.push_back(plan::ParseRule(rule));
  if (!finetune.empty()) plan::ApplySetting(resolved, "finetune", finetune);
  for (const std::string& option : finetune_options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, "--finetune-option '{}' is not of the form NAME=VALUE",
           option);
    }
    const std::string notice =
        plan::ApplyFinetuneOption(resolved, option.substr(0, equals), option.substr(equals + 1));
    if (!notice.empty() && notices != nullptr) notices->push_back(notice);
  }
  if (!smooth.empty()) plan::ApplySetting(resolved, "smooth_quant", smooth);
}

CLI::Option* AddConfigOptions(CLI::App& command, ConfigOptions& options) {
  CLI::Option* const config =
      command.add_option("--config", options.config,
                         "the configuration: a preset (listed below), a format for weights and "
                         "activations, or a .json file with settings and rules");
  config->type_name("NAME");
  command
      .add_option("--weights", options.weights,
                  "format of the weights; none: they stay float (default: that of --config)")
      ->type_name("FORMAT");
  command
      .add_option("--activations", options.activations,
                  "format of the activations; none: they stay float (default: that of --config)")
      ->type_name("FORMAT");
  command
      .add_option("--smooth-quant", options.smooth,
                  "apply SmoothQuant first, with this alpha: a number from 0 to 1 (often 0.5), or "
                  "auto, which chooses one for each activation; `quantize` needs --data for it")
      ->type_name("ALPHA|auto");
  command
      .add_option("--finetune", options.finetune,
                  "learn the weights from samples (needs --data): adaquant (best), adaround, gptq, "
                  "least_squares, clip_search, awq (for float activations), or none (default: as "
                  "--config says)")
      ->type_name("RECIPE");
  command
      .add_option("--finetune-option", options.finetune_options,
                  "set an option of AMD Quark's fast fine-tuning or of its GPTQ by Quark's name, "
                  "such as NumIterations=10; may be repeated. docs/migrate_quark.md lists them. "
                  "Bitpress's own names are --set finetune_...=...")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  // allow_extra_args(false) gives each option one value. Else a vector would take all words that
  // follow, the model among them.
  command
      .add_option("--set", options.settings,
                  "change one setting; may be repeated (`bitpress plan --help` lists them)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--rule", options.rules,
                  "change settings for some nodes or tensors only: 'WHO: WHAT'; may be repeated "
                  "(`bitpress plan --help` describes rules)")
      ->type_name("RULE")
      ->allow_extra_args(false);
  return config;
}

std::string ListPresets() {
  std::string text = "Presets:";
  for (const plan::Preset& preset : plan::AllPresets()) text += fmt::format(" {}", preset.name);
  return text +
         "\nNAME_ADAQUANT, NAME_ADAROUND and NAME_BLOCKS are the same presets with fine-tuning "
         "(needs "
         "--data).\n";
}

std::string ListSettings() {
  std::string text = "Settings (--set KEY=VALUE):\n";
  for (const plan::Setting& setting : plan::AllSettings()) {
    text += fmt::format("  {}={}\n      {}\n", setting.key, setting.allowed, setting.help);
  }
  return text;
}

std::string ListRules() {
  return fmt::format(
      "Rules (--rule 'WHO: WHAT'; all words of WHO must fit, and of a list one entry; a later rule "
      "wins):\n"
      "  WHO: {}\n"
      "      from and to: nodes on a path between values; a node's name includes that node\n"
      "      roles and layers: of transformers; ROLE is one of {}\n"
      "  WHAT: exclude, or settings KEY=VALUE joined by commas; optional: no error if nothing "
      "fits\n"
      "  'op_types=MatMul: weights=int4, weight_granularity=per_block'\n"
      "  'nodes=/encoder/.* op_types=Conv: activation_range=mse'\n"
      "  'from=image to=features: exclude'\n"
      "  'roles=attn_v;mlp_down layers=0-3: weights=mx9'\n",
      plan::RuleSelectorWords(), JoinWords<ops::LayerRole>(ops::LayerRoleWords()));
}

}  // namespace bitpress::apps
