#include <nlohmann/json.hpp>
#include <string>

#include "base/fields_json.h"
#include "tasks/quantize.h"
#include "tasks/verdict.h"

namespace bitpress::tasks {
namespace {

using Json = nlohmann::ordered_json;

Json FormatOrNull(const std::string& format, bool is_quantized) {
  return is_quantized ? Json(format) : Json();
}

}  // namespace

Json TensorsJson(const QuantizeReport& report) {
  Json list = Json::array();
  for (const plan::TensorPlan& row : report.plan.tensors) {
    list.push_back({{"value", row.value},
                    {"role", plan::RoleName(row.role)},
                    {"format", FormatOrNull(row.format, row.is_quantized())},
                    {"reason", row.reason}});
  }
  return list;
}

Json CachesJson(const QuantizeReport& report) {
  Json list = Json::array();
  for (const plan::CachePlan& cache : report.plan.caches) {
    list.push_back({{"value", cache.value},
                    {"format", FormatOrNull(cache.format, cache.is_quantized())},
                    {"granularity", plan::GranularityName(cache.granularity)},
                    {"reason", cache.reason}});
  }
  return list;
}

Json RewritesJson(const QuantizeReport& report) {
  Json json = FieldsToJson(report.rewritten);
  json["changing_pass"] = FieldJson<std::optional<ChangingPass>>::To(report.changing_pass, {});
  json["smoothed"] = FieldJson<std::optional<rewrite::SmoothReport>>::To(report.smoothed, {});
  for (const graph::PassResult& pass : report.rewritten.passes) {
    if (pass.label.empty()) continue;
    Json& entry = json[pass.label];
    for (const auto& [key, count] : pass.counts) entry[key] = count;
    entry["left_alone"] = FieldJson<decltype(pass.left_alone)>::To(pass.left_alone, {});
  }
  return json;
}

Json ToJson(const QuantizeReport& report) { return VersionedJson("bitpress_quantization", report); }

}  // namespace bitpress::tasks
