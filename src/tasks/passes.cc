#include "tasks/passes.h"

#include "emit/apply_plan.h"
#include "rewrite/passes.h"

namespace bitpress::tasks {

std::vector<std::string_view> AllPasses() {
  std::vector<std::string_view> names =
      graph::NamesOf<rewrite::PrepareState>(rewrite::kPrepareSchedule);
  names.insert(names.end(), {kSmoothPass, kFinetunePass});
  const std::vector<std::string_view> emitting = emit::EmitPasses();
  names.insert(names.end(), emitting.begin(), emitting.end());
  names.push_back(kRemoveReordersPass);
  return names;
}

void CheckPasses(const graph::PassNames& names) { graph::CheckPassNames(names, AllPasses()); }

}  // namespace bitpress::tasks
