#include "search/json_numbers.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Json NumberToJson(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

double NumberFromJson(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "inf") return kInfinity;
  if (json == "-inf") return -kInfinity;
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  Fail(ErrorCode::kInvalidArgument, "{} is no number; expected one, \"inf\", \"-inf\" or \"nan\"",
       json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json OptionalToJson(std::optional<double> number) {
  return number ? NumberToJson(*number) : Json();
}

std::optional<double> OptionalFromJson(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(NumberFromJson(json));
}

Json DecibelsToJson(double decibels) {
  return decibels == kInfinity ? Json() : NumberToJson(decibels);
}

double DecibelsFromJson(const Json& json) {
  return json.is_null() ? kInfinity : NumberFromJson(json);
}

}  // namespace bitpress::search
