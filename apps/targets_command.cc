// bitpress targets: lists the targets that models can be written for, and prints their files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/text.h"
#include "command.h"
#include "plan/target_profile.h"
#include "plan/words.h"

namespace bitpress::apps {
namespace {

std::string ListTargets() {
  size_t width = 0;
  for (const auto& [name, text] : plan::BuiltInTargets()) width = std::max(width, name.size());
  std::string list;
  for (const auto& [name, text] : plan::BuiltInTargets()) {
    list += fmt::format("{:<{}}  {}\n", name, width, plan::ProfileOf(name).meaning);
  }
  return list;
}

// Returns the keys that rules may have, with their meanings.
std::string ListConditions() {
  std::string list;
  for (const auto& [name, subject] : plan::kRuleLists) {
    list += fmt::format("{}:\n", name);
    for (const plan::ConditionRow& row : plan::ConditionRows()) {
      if (!row.IsAbout(subject)) continue;
      list += fmt::format("  {} ({}): {}\n", row.key, plan::ArgumentText(row.kind), row.meaning);
    }
  }
  return list;
}

void RunTargets(const std::string& name, bool lists_conditions) {
  if (lists_conditions) return Print(ListConditions());
  if (name.empty()) return Print(ListTargets());
  Print(plan::BuiltInText(name));
}

}  // namespace

void AddTargetsCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "targets", "List the targets of --target, or print the file with the rules of one.");
  const auto name = std::make_shared<std::string>();
  const auto lists_conditions = std::make_shared<bool>(false);
  command->add_option("name", *name, "print the JSON file of this target")->type_name("NAME");
  command->add_flag("--conditions", *lists_conditions,
                    "list what rules may say about tensors, nodes and models");
  command->footer(
      "A target is what a model is written for: whose operators it uses, which settings it needs,\n"
      "and the rules of a runtime, each with its source. A printed file can be changed, and given\n"
      "to --target by its path, which ends in .json.\n"
      "\nExample:\n"
      "  bitpress targets\n"
      "  bitpress targets qnn > phone.json\n"
      "  bitpress quantize model.onnx -o model_q.onnx --config INT8 --target phone.json --data "
      "d\n");
  command->callback([name, lists_conditions] { RunTargets(*name, *lists_conditions); });
}

}  // namespace bitpress::apps
