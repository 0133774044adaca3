#include "tasks/passes.h"

#include "deploy/remove_reorders.h"
#include "emit/apply_plan.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {

std::vector<std::string_view> AllPasses() {
  std::vector<std::string_view> names;
  for (const std::string_view name : rewrite::kPreparePasses) names.push_back(name);
  names.push_back("smooth");
  names.push_back("finetune");
  for (const std::string_view name : emit::kEmitPasses) names.push_back(name);
  names.push_back("remove-reorders");
  return names;
}

void CheckPasses(const graph::PassNames& names) { graph::CheckPassNames(names, AllPasses()); }

}  // namespace bitpress::tasks
