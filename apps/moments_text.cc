#include "moments_text.h"

#include <fmt/format.h>

#include "base/text.h"

namespace bitpress::apps {

std::string ToText(const std::string& path, const tasks::MomentsSummary& summary,
                   bool with_layers) {
  const finetune::MomentsOrigin& origin = summary.origin;
  size_t num_layers = 0;
  for (const finetune::MomentsEntry& entry : summary.entries) num_layers += entry.layers.size();
  std::string text =
      fmt::format("{}: moments of '{}' ({:016x}), {} layers, {}{} samples, {}\n", path,
                  origin.model_name, origin.model_fingerprint, num_layers, origin.num_runs(),
                  origin.num_runs_of_all > 0 ? fmt::format(" of {}", origin.num_runs_of_all) : "",
                  HumanBytes(summary.num_bytes));
  if (!with_layers) return text;
  text += fmt::format("  {}\n", origin.key);
  for (const auto& [begin, end] : origin.runs) {
    text += fmt::format("  samples {} to {}\n", begin, end - 1);
  }
  for (const finetune::MomentsEntry& entry : summary.entries) {
    text += fmt::format("  {} '{}'", entry.op_type, Join(entry.layers, "', '"));
    if (entry.shape.groups > 1) text += fmt::format(", {} groups", entry.shape.groups);
    text += fmt::format(", {} inputs", entry.shape.columns);
    if (entry.shape.rows > 0) text += fmt::format(", {} outputs", entry.shape.rows);
    text += "\n";
  }
  return text;
}

}  // namespace bitpress::apps
