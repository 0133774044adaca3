// A strict reader of JSON that people edit, such as plans and configurations. Every key must be
// known and appear once, every value must have its type, and the error says where. Wraps
// nlohmann-json, whose exceptions do not leave this file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

// Parses a document. Throws Error(kInvalidArgument) with line and column, also for a key that
// appears twice in an object, and for values in more levels than any file has.
nlohmann::json ParseJson(std::string_view text);

// An object while it is read. `where` is put in front of messages. Not thread-safe.
class ObjectReader {
 public:
  // Throws if `object` is not an object.
  ObjectReader(const nlohmann::json& object, std::string where);

  // Returns whether the object has the key. This and all reads make the key known to Finish.
  bool Has(const char* key);
  // Return the value of a key. Throw if it is missing or has another type.
  std::string String(const char* key);
  int64_t Int(const char* key);
  double Number(const char* key);
  bool Bool(const char* key);
  const nlohmann::json& Array(const char* key);
  // Returns a list of numbers. A single number is a list of one.
  std::vector<double> Numbers(const char* key);
  // Returns a string, or a number, true or false as the text that means it.
  std::string Text(const char* key);
  // Returns a list of strings. A single string is a list of one.
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
