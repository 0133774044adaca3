// bitpress plan: what would become of every tensor, as JSON.
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "command.h"
#include "config_options.h"
#include "tasks/plan.h"

namespace bitpress::apps {
namespace {

struct Options {
  std::string model;
  std::string output;
  ConfigOptions config;
  std::vector<std::string> disabled_passes;
};

void Run(const Options& options) {
  const plan::QuantConfig config = options.config.Resolve();
  // Opened first: an output that cannot be written should not cost the work.
  std::unique_ptr<AtomicFile> file;
  if (!options.output.empty()) file = std::make_unique<AtomicFile>(options.output);
  const std::string json = plan::ToJson(tasks::MakePlan(
      options.model, config, options.config.preparation(), ToPassNames(options.disabled_passes)));
  if (file == nullptr) return Print(json);
  file->Write(json);
  file->Commit();
}

}  // namespace

void AddPlanCommand(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("plan", "Decide what becomes of every tensor and print it as JSON.");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  command->add_option("-o,--output", options->output, "the file to write (default: print)")
      ->type_name("FILE");
  AddConfigOptions(*command, options->config)->required();
  AddPassOption(*command, options->disabled_passes);
  command->footer(ListPresets() + "\n" + ListSettings() + "\n" + ListRules() +
                  "\nEdit the file by hand if you like, and hand it to `bitpress quantize --plan`."
                  "\n\nExample:\n"
                  "  bitpress plan model.onnx --config MX6 --set placement=all -o plan.json\n");
  command->callback([options] { Run(*options); });
}

}  // namespace bitpress::apps
