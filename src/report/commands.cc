#include "report/commands.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"

namespace bitpress::report {
namespace {

std::string Quantize(const std::string& reference, const std::string& model) {
  return fmt::format("bitpress quantize {} -o {}", ShellQuoted(reference), ShellQuoted(model));
}

}  // namespace

std::string QuantizeCommand(const plan::QuantConfig& config, const std::string& reference,
                            const std::string& model) {
  std::string command = Quantize(reference, model);
  plan::QuantConfig preset;
  try {
    preset = plan::ConfigByName(config.name);
  } catch (const Error&) {
    return command + " --config config.json   # the settings below";
  }
  command += " --config " + ShellQuoted(config.name);
  for (const plan::Setting& setting : plan::AllSettings()) {
    const std::string value = setting.get(config);
    if (setting.is_derived || value == setting.get(preset)) continue;
    command += " --set " + ShellQuoted(fmt::format("{}={}", setting.key, value));
  }
  if (!config.rules.empty()) command += "   # and the rules of the settings below";
  return command;
}

std::string QuantizeCommand(const std::filesystem::path& plan_file, const std::string& reference,
                            const std::string& model) {
  return Quantize(reference, model) + " --plan " + ShellQuoted(PathText(plan_file));
}

std::string EvaluateCommand(const std::string& model,
                            const std::vector<std::pair<std::string_view, std::string>>& options) {
  std::string command = "bitpress evaluate " + ShellQuoted(model);
  for (const auto& [option, value] : options) {
    if (!value.empty()) command += fmt::format(" {} {}", option, ShellQuoted(value));
  }
  return command;
}

}  // namespace bitpress::report
