// The JSON of a report, as the page reads it.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/fields_json.h"
#include "evaluate/loss.h"
#include "report/report.h"

namespace bitpress::report {

nlohmann::ordered_json DecibelsJson(const std::optional<double>& noise) {
  if (!noise || std::isinf(*noise)) return nullptr;
  return *noise == 0 ? "identical" : nlohmann::ordered_json(evaluate::SqnrDb(*noise));
}

// Formats are written in small letters. Constants without a format have the name of their ONNX type
// in capitals; types of codes count as quantized.
bool IsQuantizedFormat(std::string_view format) {
  static constexpr std::array<std::string_view, 9> kOthers = {
      "FLOAT", "DOUBLE", "INT64", "INT32", "UINT64", "UINT32", "BOOL", "STRING", "graph"};
  return std::ranges::find(kOthers, format) == kOthers.end();
}

nlohmann::ordered_json ToJson(const Report& report) {
  return VersionedJson("bitpress_report", report);
}

}  // namespace bitpress::report
