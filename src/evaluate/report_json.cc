#include <nlohmann/json.hpp>

#include "base/fields_json.h"
#include "evaluate/evaluate.h"

namespace bitpress::evaluate {

nlohmann::ordered_json ToJson(const EvaluationReport& report) {
  nlohmann::ordered_json json = {{"bitpress_evaluation", 1}};  // of this JSON (docs/versions.md)
  json.update(FieldsToJson(report));
  return json;
}

}  // namespace bitpress::evaluate
