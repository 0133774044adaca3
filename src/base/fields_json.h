// The JSON of reports that describe their fields (base/fields.h): an object with a key a field. A
// field that is missing is null.
#pragma once

#include <cmath>
#include <concepts>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/paths.h"
#include "base/words.h"

namespace bitpress {

// The form of infinities and NaN, which JSON does not have.
enum class NonFinite {
  kNull,  // for readers that other people wrote
  kText,  // "inf", "-inf" or "nan", for files that are read back
};

inline nlohmann::ordered_json NumberToJson(double number, NonFinite form) {
  if (std::isfinite(number)) return number;
  if (form == NonFinite::kNull) return nullptr;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

// Reads what NumberToJson wrote as kText. Throws Error(kInvalidArgument) for anything else.
inline double NumberFromJson(const nlohmann::ordered_json& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json.is_number()) return json.get<double>();
  if (json == "inf") return kInfinity;
  if (json == "-inf") return -kInfinity;
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  Fail(ErrorCode::kInvalidArgument, "{} is no number; expected one, \"inf\", \"-inf\" or \"nan\"",
       json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// The conversions of values. Texts that may be missing are no fields of type std::string.
template <typename T>
struct FieldJson;

template <Described T>
nlohmann::ordered_json FieldsToJson(const T& report, NonFinite form = NonFinite::kNull) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  VisitFields<T>([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(field.Get(report))>;
    json[std::string(field.name)] = FieldJson<Value>::To(field.Get(report), form);
  });
  return json;
}

// Returns the JSON of a report for scripts, whose first key is its version (docs/versions.md).
template <Described T>
nlohmann::ordered_json VersionedJson(const char* key, const T& report) {
  nlohmann::ordered_json json = {{key, 1}};
  json.update(FieldsToJson(report));
  return json;
}

// Reads what FieldsToJson wrote as kText. Throws Error(kInvalidArgument) or a nlohmann exception if
// it is something else.
template <Described T>
T FieldsFromJson(const nlohmann::ordered_json& json) {
  T report;
  VisitFields<T>([&](const auto& field) {
    using FieldType = std::remove_cvref_t<decltype(field)>;
    if constexpr (!kIsComputed<FieldType>) {
      auto& value = report.*(field.member);
      FieldJson<std::remove_cvref_t<decltype(value)>>::From(json.at(std::string(field.name)),
                                                            value);
    }
  });
  return report;
}

template <typename T>
requires std::integral<T> || std::same_as<T, std::string>
struct FieldJson<T> {
  static nlohmann::ordered_json To(const T& value, NonFinite) { return value; }
  static void From(const nlohmann::ordered_json& json, T& value) { json.get_to(value); }
};
template <std::floating_point T>
struct FieldJson<T> {
  static nlohmann::ordered_json To(T value, NonFinite form) { return NumberToJson(value, form); }
  static void From(const nlohmann::ordered_json& json, T& value) {
    value = static_cast<T>(NumberFromJson(json));
  }
};
// Values of an enumeration with a table of words, which FieldWords(const T*) returns.
template <typename T>
requires std::is_enum_v<T>
struct FieldJson<T> {
  static constexpr Words<T> kWords = FieldWords(static_cast<const T*>(nullptr));
  static nlohmann::ordered_json To(T value, NonFinite) { return WordOf(kWords, value); }
  static void From(const nlohmann::ordered_json& json, T& value) {
    value = ParseWord(kWords, json.get<std::string>());
  }
};
template <>
struct FieldJson<std::string_view> {
  static nlohmann::ordered_json To(std::string_view value, NonFinite) { return value; }
};
template <>
struct FieldJson<std::filesystem::path> {
  static nlohmann::ordered_json To(const std::filesystem::path& value, NonFinite) {
    return PathText(value);
  }
};
template <>
struct FieldJson<nlohmann::ordered_json> {
  static const nlohmann::ordered_json& To(const nlohmann::ordered_json& value, NonFinite) {
    return value;
  }
};
template <Described T>
struct FieldJson<T> {
  static nlohmann::ordered_json To(const T& value, NonFinite form) {
    return FieldsToJson(value, form);
  }
  static void From(const nlohmann::ordered_json& json, T& value) {
    value = FieldsFromJson<T>(json);
  }
};
template <typename T>
struct FieldJson<std::optional<T>> {
  static nlohmann::ordered_json To(const std::optional<T>& value, NonFinite form) {
    return value ? FieldJson<T>::To(*value, form) : nlohmann::ordered_json();
  }
  static void From(const nlohmann::ordered_json& json, std::optional<T>& value) {
    if (json.is_null()) {
      value.reset();
    } else {
      FieldJson<T>::From(json, value.emplace());
    }
  }
};
template <typename T>
struct FieldJson<std::shared_ptr<T>> {
  static nlohmann::ordered_json To(const std::shared_ptr<T>& value, NonFinite form) {
    return FieldJson<std::remove_const_t<T>>::To(*value, form);
  }
};
template <typename T>
struct FieldJson<std::vector<T>> {
  static nlohmann::ordered_json To(const std::vector<T>& values, NonFinite form) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const T& value : values) list.push_back(FieldJson<T>::To(value, form));
    return list;
  }
  static void From(const nlohmann::ordered_json& json, std::vector<T>& values) {
    values.clear();
    for (const auto& value : json) FieldJson<T>::From(value, values.emplace_back());
  }
};
template <typename T>
struct FieldJson<std::map<std::string, T>> {
  static nlohmann::ordered_json To(const std::map<std::string, T>& values, NonFinite form) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [key, value] : values) json[key] = FieldJson<T>::To(value, form);
    return json;
  }
  static void From(const nlohmann::ordered_json& json, std::map<std::string, T>& values) {
    values.clear();
    for (const auto& [key, value] : json.items()) FieldJson<T>::From(value, values[key]);
  }
};
// Two texts are always what was left out, and why.
template <>
struct FieldJson<std::pair<std::string, std::string>> {
  static nlohmann::ordered_json To(const std::pair<std::string, std::string>& value, NonFinite) {
    return {{"name", value.first}, {"reason", value.second}};
  }
};
// Two numbers are an array.
template <typename T>
requires std::is_arithmetic_v<T>
struct FieldJson<std::pair<T, T>> {
  static nlohmann::ordered_json To(const std::pair<T, T>& value, NonFinite form) {
    return nlohmann::ordered_json::array(
        {FieldJson<T>::To(value.first, form), FieldJson<T>::To(value.second, form)});
  }
};

}  // namespace bitpress
