#include "plan/config_json.h"

#include "base/error.h"
#include "base/text.h"
#include "plan/strict_json.h"

namespace bitpress::plan {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json RuleToJson(const Rule& rule) {
  ordered_json object = ordered_json::object();
  for (const RuleSelector& selector : kRuleSelectors) {
    const std::vector<std::string>& words = rule.*selector.list;
    if (!words.empty()) object[std::string(selector.key)] = words;
  }
  if (rule.is_optional) object["optional"] = true;
  if (rule.exclude) object["exclude"] = true;
  for (const auto& [key, value] : rule.settings) object[key] = value;
  return object;
}

// Reads the value of a setting. A list becomes one text.
std::string SettingText(ObjectReader& reader, const json& object, const std::string& key) {
  if (object.at(key).is_array()) return Join(reader.Strings(key.c_str()), ";");
  return reader.Text(key.c_str());
}

}  // namespace

Rule RuleFromJson(const json& object) {
  ObjectReader reader(object, "the rule");
  Rule rule;
  for (const RuleSelector& selector : kRuleSelectors) {
    const std::string key(selector.key);
    if (reader.Has(key.c_str())) rule.*selector.list = reader.Strings(key.c_str());
  }
  rule.is_optional = reader.Has("optional") && reader.Bool("optional");
  rule.exclude = reader.Has("exclude") && reader.Bool("exclude");
  for (const Setting& setting : AllSettings()) {
    const std::string key(setting.key);
    if (reader.Has(key.c_str())) {
      rule.settings.emplace_back(key, SettingText(reader, object, key));
    }
  }
  reader.Finish();
  CheckRule(rule);
  return rule;
}

std::string ToJson(const QuantConfig& config) {
  ordered_json object = {{"name", config.name}};
  for (const Setting& setting : AllSettings()) {
    if (setting.is_derived) continue;
    std::string value = setting.get(config);
    if (setting.is_quiet && value == setting.get(QuantConfig())) continue;
    object[std::string(setting.key)] = std::move(value);
  }
  if (!config.rules.empty()) {
    object["rules"] = ordered_json::array();
    for (const Rule& rule : config.rules) object["rules"].push_back(RuleToJson(rule));
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

QuantConfig ReadConfig(const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  QuantConfig config;
  if (reader.Has("preset")) {
    config = WithContext(where, [&] { return ConfigByName(reader.String("preset")); });
  }
  if (reader.Has("name")) config.name = reader.String("name");
  for (const Setting& setting : AllSettings()) {
    const std::string key(setting.key);
    if (!reader.Has(key.c_str())) continue;
    WithContext(where, [&] { ApplySetting(config, key, SettingText(reader, object, key)); });
  }
  for (const auto& [removed, value] : RemovedSettings()) {
    const std::string key(removed);
    if (!reader.Has(key.c_str()) || reader.Text(key.c_str()) == value) continue;
    WithContext(where, [&] { FindSetting(key); });
  }
  if (reader.Has("rules")) {
    size_t number = 0;
    for (const json& rule : reader.Array("rules")) {
      config.rules.push_back(WithContext(fmt::format("{}, rules[{}]", where, number++),
                                         [&] { return RuleFromJson(rule); }));
    }
  }
  reader.Finish();
  return config;
}

QuantConfig ConfigFromJson(std::string_view text) {
  return ReadConfig(ParseJson(text), "configuration");
}

}  // namespace bitpress::plan
