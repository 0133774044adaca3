#include "plan/strict_json.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::plan {
namespace {

using nlohmann::json;

// Values are copied, compared and written by functions that call themselves, a level each.
constexpr int kMostLevels = 100;

// nlohmann's messages start with "[json.exception.parse_error.101] ".
std::string_view WithoutTag(std::string_view message) {
  const size_t end = message.find("] ");
  return message.starts_with("[json") && end != std::string_view::npos ? message.substr(end + 2)
                                                                       : message;
}

// Returns a description of a value, shortened for messages.
std::string Excerpt(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

}  // namespace

json ParseJson(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMostLevels) {
      Fail(ErrorCode::kInvalidArgument, "values lie in more than {} levels of lists and objects",
           kMostLevels);
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      Fail(ErrorCode::kInvalidArgument, "the key '{}' appears twice in one object",
           parsed.get<std::string>());
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    Fail(ErrorCode::kInvalidArgument, "not JSON: {}", WithoutTag(error.what()));
  }
}

ObjectReader::ObjectReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    Fail(ErrorCode::kInvalidArgument, "{}: expected an object, found {}", where_, Excerpt(object));
  }
}

bool ObjectReader::Has(const char* key) {
  asked_.emplace_back(key);
  return object_.contains(key);
}

const json& ObjectReader::At(const char* key) {
  if (!Has(key)) Fail(ErrorCode::kInvalidArgument, "{}: the key '{}' is missing", where_, key);
  return object_.at(key);
}

void ObjectReader::FailType(const char* key, std::string_view wanted) const {
  Fail(ErrorCode::kInvalidArgument, "{}: '{}' must be {}, found {}", where_, key, wanted,
       Excerpt(object_.at(key)));
}

std::string ObjectReader::String(const char* key) {
  const json& value = At(key);
  if (!value.is_string()) FailType(key, "a string");
  return value.get<std::string>();
}

int64_t ObjectReader::Int(const char* key) {
  const json& value = At(key);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    FailType(key, "an integer");
  }
  return value.get<int64_t>();
}

double ObjectReader::Number(const char* key) {
  const json& value = At(key);
  if (!value.is_number()) FailType(key, "a number");
  return value.get<double>();
}

std::vector<double> ObjectReader::Numbers(const char* key) {
  const json& value = At(key);
  const bool is_list =
      value.is_array() && !value.empty() &&
      std::ranges::all_of(value, [](const json& item) { return item.is_number(); });
  if (!is_list && !value.is_number()) FailType(key, "a number or a list of numbers");
  if (!is_list) return {value.get<double>()};
  return value.get<std::vector<double>>();
}

bool ObjectReader::Bool(const char* key) {
  const json& value = At(key);
  if (!value.is_boolean()) FailType(key, "true or false");
  return value.get<bool>();
}

const json& ObjectReader::Array(const char* key) {
  const json& value = At(key);
  if (!value.is_array()) FailType(key, "a list");
  return value;
}

std::string ObjectReader::Text(const char* key) {
  const json& value = At(key);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_boolean() && !value.is_number()) FailType(key, "a string, number, true or false");
  return value.dump();
}

std::vector<std::string> ObjectReader::Strings(const char* key) {
  const json& value = At(key);
  if (value.is_string()) return {value.get<std::string>()};
  const bool are_strings =
      value.is_array() && std::ranges::all_of(value, [](const json& v) { return v.is_string(); });
  if (!are_strings) FailType(key, "a string or a list of strings");
  return value.get<std::vector<std::string>>();
}

const json& ObjectReader::Object(const char* key) {
  const json& value = At(key);
  if (!value.is_object()) FailType(key, "an object");
  return value;
}

void ObjectReader::Finish() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) unknown.push_back(key);
  }
  if (unknown.empty()) return;
  std::vector<std::string> known = asked_;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  // A key that is there already is no suggestion.
  std::vector<std::string> absent;
  std::copy_if(known.begin(), known.end(), std::back_inserter(absent),
               [&](const std::string& key) { return !object_.contains(key); });
  Fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'{}; known keys: {}", where_, unknown[0],
       DidYouMean(unknown[0], absent), Join(known, ", "));
}

}  // namespace bitpress::plan
