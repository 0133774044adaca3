// The JSON of the check's report, in both directions.
#include <nlohmann/json.hpp>

#include "deploy/check_target.h"

namespace bitpress::deploy {

size_t TargetReport::num_integer_nodes() const {
  size_t count = 0;
  for (const auto& [op_type, number] : integer_operators) count += number;
  return count;
}

nlohmann::ordered_json ToJson(const TargetReport& report) {
  nlohmann::ordered_json json = {{"bitpress_check", 1},  // version of this JSON (docs/versions.md)
                                 {"runtime", report.runtime},
                                 {"is_loaded", report.is_loaded},
                                 {"is_run", report.is_run},
                                 {"is_made_up", report.is_made_up},
                                 {"error", report.error},
                                 {"crash", report.crash},
                                 {"checker_error", report.checker_error},
                                 {"is_described", report.is_described},
                                 {"num_integer_nodes", report.num_integer_nodes()},
                                 {"integer_operators", report.integer_operators},
                                 {"float_nodes", nlohmann::ordered_json::array()},
                                 {"processor", ToJson(report.processor)},
                                 {"closeness", nullptr},
                                 {"speed", nullptr},
                                 {"work", nullptr},
                                 {"library_operators", report.library_operators}};
  if (report.closeness) json["closeness"] = ToJson(*report.closeness);
  if (report.speed) json["speed"] = ToJson(*report.speed);
  if (report.work) json["work"] = ToJson(*report.work);
  for (const FloatNode& node : report.float_nodes) {
    json["float_nodes"].push_back(
        {{"name", node.name}, {"op_type", node.op_type}, {"reason", node.reason}});
  }
  return json;
}

TargetReport TargetReportFromJson(const nlohmann::ordered_json& json) {
  TargetReport report;
  json.at("runtime").get_to(report.runtime);
  json.at("is_loaded").get_to(report.is_loaded);
  json.at("is_run").get_to(report.is_run);
  json.at("is_made_up").get_to(report.is_made_up);
  json.at("error").get_to(report.error);
  json.at("crash").get_to(report.crash);
  json.at("checker_error").get_to(report.checker_error);
  json.at("is_described").get_to(report.is_described);
  json.at("integer_operators").get_to(report.integer_operators);
  for (const auto& node : json.at("float_nodes")) {
    report.float_nodes.push_back({node.at("name"), node.at("op_type"), node.at("reason")});
  }
  report.processor = evaluate::ProcessorReportFromJson(json.at("processor"));
  if (const auto& closeness = json.at("closeness"); !closeness.is_null()) {
    report.closeness = ClosenessFromJson(closeness);
  }
  if (const auto& speed = json.at("speed"); !speed.is_null()) report.speed = SpeedFromJson(speed);
  if (const auto& work = json.at("work"); !work.is_null()) report.work = WorkSharesFromJson(work);
  json.at("library_operators").get_to(report.library_operators);
  return report;
}

}  // namespace bitpress::deploy
