// Floating-point numbers in JSON files that are read back, such as journals. JSON has neither
// infinities nor NaN, so these are texts: the worst figure must not come back as the best. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace bitpress::search {

// Returns a number, or "inf", "-inf" or "nan".
nlohmann::ordered_json NumberToJson(double number);
// Reads what NumberToJson wrote. Throws Error(kInvalidArgument) for anything else.
double NumberFromJson(const nlohmann::ordered_json& json);

// Write and read a number that may be missing, which is null.
nlohmann::ordered_json OptionalToJson(std::optional<double> number);
std::optional<double> OptionalFromJson(const nlohmann::ordered_json& json);

// Returns an SQNR in dB: null stands for +infinity, an output without any error.
nlohmann::ordered_json DecibelsToJson(double decibels);
// Reads what DecibelsToJson wrote. Throws Error(kInvalidArgument) for anything else.
double DecibelsFromJson(const nlohmann::ordered_json& json);

}  // namespace bitpress::search
