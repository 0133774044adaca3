// The JSON of the check's report.
#include <nlohmann/json.hpp>

#include "base/fields_json.h"
#include "deploy/check_target.h"

namespace bitpress::deploy {

size_t TargetReport::num_integer_nodes() const {
  size_t count = 0;
  for (const auto& [op_type, number] : integer_operators) count += number;
  return count;
}

std::optional<double> TargetReport::worst_db() const {
  const std::optional<OutputCloseness> worst = closeness ? closeness->worst() : std::nullopt;
  return worst ? std::optional(worst->sqnr_db) : std::nullopt;
}

nlohmann::ordered_json ToJson(const TargetReport& report) {
  return VersionedJson("bitpress_check", report);
}

}  // namespace bitpress::deploy
