// bitpress plan: decides the format of every tensor and writes the decisions as JSON.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/atomic_file.h"
#include "base/paths.h"
#include "command.h"
#include "config_options.h"
#include "plan/dynamic_rows.h"
#include "target_text.h"
#include "task_option.h"
#include "tasks/plan.h"

namespace bitpress::apps {
namespace {

struct PlanArguments {
  std::string model;
  std::string output;
  ConfigOptions config;
  Preparation preparation = Preparation::kOptimize;
  PassNames disabled_passes;
  Target target = Target::kAutomatic;
};

void RunPlan(const PlanArguments& options) {
  const plan::QuantConfig config = options.config.Resolve();
  // The file is opened first, so that an output that cannot be written costs no work.
  std::unique_ptr<AtomicFile> file;
  if (!options.output.empty()) file = std::make_unique<AtomicFile>(PathOf(options.output));
  const plan::QuantPlan plan = tasks::MakePlan(PathOf(options.model), config, options.preparation,
                                               options.disabled_passes, options.target);
  if (const size_t num_slow = plan::NumDynamicConvolutions(plan); num_slow > 0) {
    fmt::print(stderr, "bitpress: {}\n", DescribeDynamicConvolutions(num_slow));
  }
  const std::string json = plan::ToJson(plan);
  if (file == nullptr) return Print(json);
  file->Write(json);
  file->Commit();
}

}  // namespace

void AddPlanCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "plan", "Decide the format of every tensor, to read or to edit before quantizing.");
  const auto options = std::make_shared<PlanArguments>();
  command->add_option("model", options->model, "the ONNX model")->required()->type_name("MODEL");
  command
      ->add_option("-o,--output", options->output,
                   "the JSON file to write (default: standard output)")
      ->type_name("FILE");
  AddConfigOptions(*command, options->config)->required();
  AddTaskOption(*command, "as_is", options->preparation);
  AddTaskOption(*command, "disable_pass", options->disabled_passes);
  AddTaskOption(*command, "target", options->target);
  command->footer(ListPresets() + "\n" + ListSettings() + "\n" + ListRules() +
                  "\nThe file may be edited by hand. `bitpress quantize --plan` carries it out."
                  "\n\nExample:\n"
                  "  bitpress plan model.onnx --config MX6 --set placement=all -o plan.json\n");
  command->callback([options] { RunPlan(*options); });
}

}  // namespace bitpress::apps
