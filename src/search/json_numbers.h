// Floating-point numbers in JSON files that are read back, such as journals: the worst figure must
// not come back as the best (NonFinite::kText in base/fields_json.h). Pure.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/fields_json.h"

namespace bitpress::search {

inline nlohmann::ordered_json ToJson(double number) {
  return NumberToJson(number, NonFinite::kText);
}

// Write and read a number that may be missing, which is null.
inline nlohmann::ordered_json ToJson(std::optional<double> number) {
  return number ? ToJson(*number) : nlohmann::ordered_json();
}
inline std::optional<double> OptionalFromJson(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::nullopt : std::optional(NumberFromJson(json));
}

// Returns an SQNR in dB: null stands for +infinity, an output without any error.
inline nlohmann::ordered_json DecibelsToJson(double decibels) {
  return std::isinf(decibels) && decibels > 0 ? nlohmann::ordered_json() : ToJson(decibels);
}

}  // namespace bitpress::search
