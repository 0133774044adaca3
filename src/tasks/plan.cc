#include "tasks/plan.h"

#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/make_plan.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {
namespace fs = std::filesystem;

plan::QuantConfig ReadConfig(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("'{}'", path.string()), [&] {
    plan::QuantConfig config = plan::ConfigFromJson(text);
    if (config.name.empty()) config.name = path.stem().string();
    return config;
  });
}

plan::QuantPlan MakePlan(const fs::path& model, const plan::QuantConfig& config,
                         rewrite::Preparation preparation) {
  return plan::MakePlan(config,
                        rewrite::Prepare(model, preparation, plan::ResolveEqualization(config)),
                        model.filename().string());
}

plan::QuantPlan ReadPlan(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("plan '{}'", path.string()), [&] { return plan::FromJson(text); });
}

}  // namespace bitpress::tasks
