#include "tasks/plan.h"

#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "plan/make_plan.h"
#include "plan/target_profile.h"
#include "rewrite/prepare.h"
#include "runtime/machine.h"
#include "tasks/passes.h"

namespace bitpress::tasks {
namespace fs = std::filesystem;

namespace {

// Makes a plan, with the decisions of another tool if there are any.
plan::QuantPlan Make(const fs::path& model, plan::QuantConfig config,
                     rewrite::Preparation preparation, const graph::PassNames& disabled_passes,
                     const Target& target, const interop::Decisions* imported = nullptr,
                     const fs::path& imported_file = {}, interop::ImportReport* report = nullptr) {
  CheckPasses(disabled_passes);
  const plan::TargetProfile profile = plan::ProfileOf(target);
  const std::string of_import = fmt::format("with the decisions of '{}'", PathText(imported_file));
  const auto with_import = [&](const auto& work) {
    return imported != nullptr ? WithContext(of_import, work) : work();
  };
  if (imported != nullptr) {
    with_import([&] { interop::Configure(*imported, config); });
  }
  plan::AdaptTo(profile, config);
  const graph::Model prepared = rewrite::Prepare(model, {.preparation = preparation,
                                                         .rewrites = plan::ResolveRewrites(config),
                                                         .disabled_passes = disabled_passes});
  std::vector<std::string> unmatched;
  plan::QuantPlan plan = with_import(
      [&] { return plan::MakePlan(config, prepared, PathText(model.filename()), &unmatched); });
  plan::FixScales(profile, prepared, plan);
  if (imported != nullptr) {
    *report = with_import([&] { return interop::Apply(*imported, prepared, plan); });
    if (imported->tells_unmatched) {
      report->notes.insert(report->notes.end(), unmatched.begin(), unmatched.end());
    }
  }
  plan::CheckRules(profile, plan, prepared);
  return plan;
}

}  // namespace

plan::QuantConfig ReadConfig(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    plan::QuantConfig config = plan::ConfigFromJson(text);
    if (config.name.empty()) config.name = PathText(path.stem());
    return config;
  });
}

plan::QuantConfig ConfigNamed(const std::string& name) {
  return name.ends_with(".json") ? ReadConfig(name) : plan::ConfigByName(name);
}

plan::QuantPlan MakePlan(const fs::path& model, plan::QuantConfig config,
                         rewrite::Preparation preparation, const graph::PassNames& disabled_passes,
                         const Target& target) {
  return Make(model, std::move(config), preparation, disabled_passes, target);
}

plan::QuantPlan MakePlanLike(const fs::path& file, const fs::path& model, plan::QuantConfig config,
                             interop::ImportReport& report, rewrite::Preparation preparation,
                             const graph::PassNames& disabled_passes, const Target& target) {
  interop::Decisions decisions = interop::ReadDecisions(file);
  if (!decisions.rules.empty()) interop::NameUnnamed(decisions, runtime::LoadPortable(model));
  return Make(model, std::move(config), preparation, disabled_passes, target, &decisions, file,
              &report);
}

plan::QuantPlan ReadPlan(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("plan '{}'", PathText(path)),
                     [&] { return plan::FromJson(text); });
}

}  // namespace bitpress::tasks
