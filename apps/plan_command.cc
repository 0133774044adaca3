// bitpress plan: decides the format of every tensor and writes the decisions as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "interop/decisions.h"
#include "plan/dynamic_rows.h"
#include "target_text.h"
#include "task_option.h"
#include "tasks/plan.h"

namespace bitpress::apps {
namespace {

struct PlanArguments {
  std::string model;
  std::string output;
  std::string imported;
  std::optional<interop::FileKind> exported;
  ConfigOptions config;
  Preparation preparation = Preparation::kOptimize;
  PassNames disabled_passes;
  Target target = Target::kAutomatic;
};

// Returns up to three names, and how many more there are.
std::string SomeOf(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::vector<std::string> shown = names;
  shown.resize(std::min(names.size(), kMost));
  const size_t rest = names.size() - shown.size();
  return fmt::format("'{}'{}", fmt::join(shown, "', '"),
                     rest > 0 ? fmt::format(" and {} more", rest) : "");
}

void SayNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "bitpress: {}\n", note);
}

void SayImport(const interop::ImportReport& report, const std::string& file) {
  const auto verb = [](size_t count, std::string_view of_one, std::string_view of_many) {
    return count == 1 ? of_one : of_many;
  };
  if (report.num_rules > 0) {
    fmt::print(stderr, "bitpress: the plan is made with {} {} of '{}'\n", report.num_rules,
               verb(report.num_rules, "setting or rule", "settings and rules"), file);
  }
  if (report.num_rows > 0 || report.num_rules == 0) {
    fmt::print(stderr, "bitpress: {} {} the decisions of '{}'\n",
               WithNoun(report.num_rows, "tensor"), verb(report.num_rows, "takes", "take"), file);
  }
  if (const size_t num = report.unmatched.size(); num > 0) {
    fmt::print(stderr, "bitpress: {} of the file {} that this model quantizes: {}\n",
               WithNoun(num, "tensor"), verb(num, "is none", "are none"), SomeOf(report.unmatched));
  }
  if (const size_t num = report.now_float.size(); num > 0) {
    fmt::print(stderr, "bitpress: {} {} float, because the file does not name {}: {}\n",
               WithNoun(num, "tensor"), verb(num, "stays", "stay"), verb(num, "it", "them"),
               SomeOf(report.now_float));
  }
  SayNotes(report.notes);
}

plan::QuantPlan PlanOf(const PlanArguments& options) {
  const plan::QuantConfig config = options.config.Resolve();
  if (options.imported.empty()) {
    return tasks::MakePlan(PathOf(options.model), config, options.preparation,
                           options.disabled_passes, options.target);
  }
  interop::ImportReport report;
  plan::QuantPlan plan =
      tasks::MakePlanLike(PathOf(options.imported), PathOf(options.model), config, report,
                          options.preparation, options.disabled_passes, options.target);
  SayImport(report, options.imported);
  return plan;
}

// Returns the text of a file of another tool, and says what it cannot say.
std::string Export(const interop::Decisions& decisions, interop::FileKind kind) {
  std::vector<std::string> notes;
  std::string text = interop::Write(decisions, kind, notes);
  SayNotes(notes);
  return text;
}

// Returns the text that the command writes.
std::string TextOf(const PlanArguments& options) {
  const bool is_of_model = options.config.config.empty();
  if (is_of_model && !options.exported) {
    throw CLI::ValidationError(
        "--config is required, unless --export tells what a quantized model has");
  }
  if (is_of_model && !options.imported.empty()) {
    throw CLI::ValidationError("--import changes a plan, and a plan needs --config");
  }
  if (is_of_model) {
    return Export(interop::ReadDecisions(PathOf(options.model)), *options.exported);
  }
  const plan::QuantPlan plan = PlanOf(options);
  if (const size_t num_slow = plan::NumDynamicConvolutions(plan); num_slow > 0) {
    fmt::print(stderr, "bitpress: {}\n", DescribeDynamicConvolutions(num_slow));
  }
  if (!options.exported) return plan::ToJson(plan);
  return Export(interop::DecisionsOf(plan), *options.exported);
}

void RunPlan(const PlanArguments& options) {
  // The file is opened first, so that an output that cannot be written costs no work.
  std::unique_ptr<AtomicFile> file;
  if (!options.output.empty()) file = std::make_unique<AtomicFile>(PathOf(options.output));
  const std::string json = TextOf(options);
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
  AddConfigOptions(*command, options->config);
  command
      ->add_option("--import", options->imported,
                   "take the decisions of another tool in place of the configuration's: encodings "
                   "of AIMET, ONNX Runtime's TensorQuantOverrides, an ignored scope of NNCF, a "
                   "configuration of AMD Quark or ONNX Runtime GenAI, or a quantized .onnx model")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--export",
          [options](const std::string& word) {
            options->exported =
                ParseWord<interop::FileKind>(interop::kFileKindWords, word, "--export");
          },
          "write the decisions as a file of another tool instead of a plan; without --config those "
          "of a quantized model")
      ->type_name(JoinWords<interop::FileKind>(interop::kFileKindWords));
  AddTaskOption(*command, "as_is", options->preparation);
  AddTaskOption(*command, "disable_pass", options->disabled_passes);
  AddTaskOption(*command, "target", options->target);
  command->footer(ListPresets() + "\n" + ListSettings() + "\n" + ListRules() +
                  "\nThe file may be edited by hand. `bitpress quantize --plan` carries it out."
                  "\n\nExample:\n"
                  "  bitpress plan model.onnx --config MX6 --set placement=all -o plan.json\n"
                  "  bitpress plan model.onnx --config INT8 --import model.encodings -o plan.json\n"
                  "  bitpress plan quantized.onnx --export aimet-1.0.0 -o model.encodings\n");
  command->callback([options] { RunPlan(*options); });
}

}  // namespace bitpress::apps
