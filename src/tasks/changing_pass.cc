#include "tasks/changing_pass.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "ops/multiply_adds.h"
#include "rewrite/passes.h"
#include "tasks/compared_runs.h"
#include "tasks/write_model.h"

namespace bitpress::tasks {
namespace {

// The rounding of floats in another order leaves more than this, in FLOAT16 too.
constexpr double kRoundingDb = 40;

// Returns the output of the model, prepared without some passes, that is farthest from the given
// model's; nothing if that cannot be measured.
std::optional<deploy::OutputCloseness> WorstOutput(const QuantizeOptions& options,
                                                   const plan::Rewrites& rewrites,
                                                   const graph::PassNames& disabled) {
  try {
    graph::Model model = rewrite::Prepare(
        options.model,
        {.preparation = options.preparation, .rewrites = rewrites, .disabled_passes = disabled});
    const double num_products = ops::CountProducts(model);
    const WrittenModel checked = WriteModel(std::move(model), {.output = options.output,
                                                               .given = options.model,
                                                               .is_kept = false,
                                                               .samples = options.samples,
                                                               .num_products = num_products});
    if (!checked.target || !checked.target->closeness) return std::nullopt;
    return checked.target->closeness->worst();
  } catch (const Error&) {
    return std::nullopt;  // without this pass the model does not load, or its names do not fit
  }
}

}  // namespace

std::optional<ChangingPass> FindChangingPass(const QuantizeOptions& options,
                                             const plan::Rewrites& rewrites) {
  graph::PassNames disabled = options.disabled_passes;
  disabled.insert(std::string(rewrite::kNarrowToHalf.name));
  const std::optional<deploy::OutputCloseness> changed = WorstOutput(options, rewrites, disabled);
  if (!changed || changed->sqnr_db >= kRoundingDb) return std::nullopt;
  for (const rewrite::PreparePass* const pass : rewrite::kPrepareSchedule) {
    // Precision changes as the user or the formats want it.
    if (!pass->can_be_off || !pass->is_exact || disabled.contains(pass->name)) continue;
    graph::PassNames without = disabled;
    without.insert(std::string(pass->name));
    const std::optional<deploy::OutputCloseness> output = WorstOutput(options, rewrites, without);
    if (output && output->sqnr_db >= kRoundingDb) {
      return ChangingPass{std::string(pass->name), changed->name, changed->sqnr_db};
    }
  }
  return std::nullopt;
}

}  // namespace bitpress::tasks
