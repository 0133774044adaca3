// Config, and the lists of presets, settings and formats.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "formats/format_spec.h"
#include "plan/finetune_settings.h"
#include "plan/quant_config.h"
#include "plan/rule.h"
#include "tasks/plan.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;

using Settings = std::vector<std::pair<std::string, std::string>>;

// Reads a rule from a JSON object, as configuration files have it.
plan::Rule RuleFromJson(const std::string& object) {
  return plan::ConfigFromJson("{\"rules\":[" + object + "]}").rules.at(0);
}

Settings SettingsOf(const plan::QuantConfig& config) {
  Settings settings;
  for (const plan::Setting& setting : plan::AllSettings()) {
    if (!setting.is_derived) settings.emplace_back(setting.key, setting.get(config));
  }
  return settings;
}

std::vector<std::string> RulesOf(const plan::QuantConfig& config) {
  std::vector<std::string> rules;
  for (const plan::Rule& rule : config.rules) rules.push_back(plan::RuleText(rule));
  return rules;
}

// Returns (key, allowed values, help) of each setting.
std::vector<std::tuple<std::string_view, std::string, std::string_view>> ListSettings() {
  std::vector<std::tuple<std::string_view, std::string, std::string_view>> rows;
  for (const plan::Setting& setting : plan::AllSettings()) {
    rows.emplace_back(setting.key, setting.allowed, setting.help);
  }
  return rows;
}

std::string_view FateName(plan::OptionFate fate) {
  switch (fate) {
    case plan::OptionFate::kHonoured:
      return "honoured";
    case plan::OptionFate::kAccepted:
      return "accepted";
    case plan::OptionFate::kRefused:
      break;
  }
  return "refused";
}

// Returns (name, fate, our setting or "", the reason or "") of each option.
std::vector<std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>>
ListFinetuneOptions() {
  std::vector<std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>>
      rows;
  for (const plan::FinetuneOption& option : plan::AllFinetuneOptions()) {
    rows.emplace_back(option.name, FateName(option.fate), option.setting, option.reason);
  }
  return rows;
}

std::vector<std::string_view> ListPresets() {
  std::vector<std::string_view> names;
  for (const plan::Preset& preset : plan::AllPresets()) names.push_back(preset.name);
  return names;
}

std::vector<std::string> ListFormats() {
  std::vector<std::string> names;
  for (const formats::FormatSpec& spec : formats::AllFormats()) names.push_back(spec.name);
  return names;
}

}  // namespace

plan::QuantConfig Changed(plan::QuantConfig config, const Settings& settings,
                          const std::vector<std::string>& rules) {
  for (const auto& [key, value] : settings) plan::ApplySetting(config, key, value);
  for (const std::string& rule : rules) {
    config.rules.push_back(rule.starts_with("{") ? RuleFromJson(rule) : plan::ParseRule(rule));
  }
  return config;
}

void BindConfig(nb::module_& module) {
  nb::class_<plan::QuantConfig>(module, "Config",
                                "The way to quantize a model: a preset, settings and rules.")
      .def(
          "__init__",
          [](plan::QuantConfig* self, const std::string& name) {
            new (self) plan::QuantConfig(tasks::ConfigNamed(name));
          },
          "name"_a)
      .def("changed", &Changed, "settings"_a, "rules"_a, "Returns a copy with changes.")
      .def_static("from_json", &plan::ConfigFromJson, "text"_a)
      .def("to_json", [](const plan::QuantConfig& self) { return plan::ToJson(self); })
      .def_prop_ro("name", [](const plan::QuantConfig& self) { return self.name; })
      .def_prop_ro("settings", &SettingsOf, "Every setting and its value.")
      .def_prop_ro("rules", &RulesOf)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__",
           [](const plan::QuantConfig& self) {
             return std::hash<std::string>()(plan::ToJson(self));
           })
      .def("__repr__",
           [](const plan::QuantConfig& self) { return "Config(" + plan::ToJson(self) + ")"; });

  nb::class_<formats::FormatSpec>(module, "Format", "The properties of a number format.")
      .def_prop_ro("name", [](const formats::FormatSpec& self) { return self.name; })
      .def_ro("element_bits", &formats::FormatSpec::element_bits)
      .def_ro("block_size", &formats::FormatSpec::block_size,
              "Elements that share a scale. 0: no blocks.")
      .def_ro("sub_block_size", &formats::FormatSpec::sub_block_size,
              "Elements that share a micro-exponent. 0: none.")
      .def_prop_ro("bits_per_element", &formats::FormatSpec::BitsPerElement,
                   "Stored bits of one element of a full block, with its share of the scales.")
      .def_prop_ro("is_integer", &formats::FormatSpec::is_integer)
      .def("__repr__",
           [](const formats::FormatSpec& self) { return "Format('" + self.name + "')"; });
  module.def("find_format", &formats::FindFormat, "name"_a);
  module.def("list_formats", &ListFormats);
  module.def("list_presets", &ListPresets);
  module.def("list_settings", &ListSettings);
  module.def("list_finetune_options", &ListFinetuneOptions);
}

}  // namespace bitpress::python
