#include <nlohmann/json.hpp>

#include "base/fields_json.h"
#include "evaluate/evaluate.h"

namespace bitpress::evaluate {

nlohmann::ordered_json ToJson(const EvaluationReport& report) {
  return VersionedJson("bitpress_evaluation", report);
}

}  // namespace bitpress::evaluate
