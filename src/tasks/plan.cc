#include "tasks/plan.h"

#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "plan/make_plan.h"
#include "plan/target_profile.h"
#include "rewrite/prepare.h"
#include "tasks/passes.h"

namespace bitpress::tasks {
namespace fs = std::filesystem;

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
                         Target target) {
  CheckPasses(disabled_passes);
  plan::AdaptTo(target, config);
  plan::QuantPlan plan =
      plan::MakePlan(config,
                     rewrite::Prepare(model, {.preparation = preparation,
                                              .rewrites = plan::ResolveRewrites(config),
                                              .disabled_passes = disabled_passes}),
                     PathText(model.filename()));
  plan::CheckRules(target, plan);
  return plan;
}

plan::QuantPlan ReadPlan(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("plan '{}'", PathText(path)),
                     [&] { return plan::FromJson(text); });
}

}  // namespace bitpress::tasks
