// Reads JSON that people edit: every key must be known and appear once, every value must have its
// type, and the error says where. Wraps nlohmann-json, whose exceptions do not leave this file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

// Parses a document. Throws Error(kInvalidArgument) with line and column, also for a key that
// appears twice in an object.
nlohmann::json ParseJson(std::string_view text);

// One object while it is read. `where` is put in front of messages.
class ObjectReader {
 public:
  // Throws if `object` is not an object.
  ObjectReader(const nlohmann::json& object, std::string where);

  bool Has(const char* key);
  // Throw if the key is missing or its value has another type.
  std::string String(const char* key);
  int64_t Int(const char* key);
  double Number(const char* key);
  bool Bool(const char* key);
  const nlohmann::json& Array(const char* key);
  // A string, or the only way to write this number, true or false as one.
  std::string Text(const char* key);
  // A list of strings, or one string for a list of one.
  std::vector<std::string> Strings(const char* key);
  const nlohmann::json& Object(const char* key);
  // Throws if the object has a key that was never asked for, with the nearest of those that were.
  void Finish() const;

 private:
  const nlohmann::json& At(const char* key);
  [[noreturn]] void FailType(const char* key, std::string_view wanted) const;

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

}  // namespace bitpress::plan
