#include "tasks/changing_pass.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "tasks/compared_runs.h"
#include "tasks/write_model.h"

namespace bitpress::tasks {
namespace {

// The rounding of floats in another order leaves more than this, in FLOAT16 too.
constexpr double kRoundingDb = 40;

// These passes change the precision of all values, as the user or the formats want it.
constexpr std::string_view kNarrow = "narrow-to-half";
constexpr std::string_view kWiden = "widen-half";

// Returns the output of the model, prepared without some passes, that is farthest from the given
// model's; nothing if that cannot be measured.
std::optional<deploy::OutputCloseness> WorstOutput(const QuantizeOptions& options,
                                                   const plan::Rewrites& rewrites,
                                                   const graph::PassNames& disabled) {
  try {
    graph::Model model = rewrite::Prepare(
        options.model,
        {.preparation = options.preparation, .rewrites = rewrites, .disabled_passes = disabled});
    const double num_products = CountProducts(model);
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
  disabled.insert(std::string(kNarrow));
  const std::optional<deploy::OutputCloseness> changed = WorstOutput(options, rewrites, disabled);
  if (!changed || changed->sqnr_db >= kRoundingDb) return std::nullopt;
  for (const std::string_view pass : rewrite::kPreparePasses) {
    if (pass == kWiden || disabled.contains(pass)) continue;
    graph::PassNames without = disabled;
    without.insert(std::string(pass));
    const std::optional<deploy::OutputCloseness> output = WorstOutput(options, rewrites, without);
    if (output && output->sqnr_db >= kRoundingDb) {
      return ChangingPass{std::string(pass), changed->name, changed->sqnr_db};
    }
  }
  return std::nullopt;
}

}  // namespace bitpress::tasks
