// The JSON of measurements.
#include <nlohmann/json.hpp>
#include <optional>

#include "search/goals.h"
#include "search/json_numbers.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json ToJson(const Measurement& measurement) {
  Json json{{"sqnr_db", DecibelsToJson(measurement.sqnr_db)},
            {"cosine", NumberToJson(measurement.cosine)},
            {"l2", NumberToJson(measurement.l2)}};
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) json[key] = NumberToJson(*value);
  };
  add("agreement", measurement.agreement);
  add("divergence", measurement.divergence);
  add("top1", measurement.top1);
  add("reference_top1", measurement.reference_top1);
  add("metric", measurement.metric);
  add("reference_metric", measurement.reference_metric);
  if (measurement.file_bytes > 0) json["file_bytes"] = measurement.file_bytes;
  return json;
}

Measurement MeasurementFromJson(const Json& json) {
  Measurement measurement;
  measurement.sqnr_db = DecibelsFromJson(json.at("sqnr_db"));
  measurement.cosine = NumberFromJson(json.at("cosine"));
  measurement.l2 = NumberFromJson(json.at("l2"));
  const auto read = [&](const char* key, std::optional<double>& value) {
    if (json.contains(key)) value = NumberFromJson(json[key]);
  };
  read("agreement", measurement.agreement);
  read("divergence", measurement.divergence);
  read("top1", measurement.top1);
  read("reference_top1", measurement.reference_top1);
  read("metric", measurement.metric);
  read("reference_metric", measurement.reference_metric);
  if (json.contains("file_bytes")) measurement.file_bytes = json["file_bytes"].get<uint64_t>();
  return measurement;
}

}  // namespace bitpress::search
