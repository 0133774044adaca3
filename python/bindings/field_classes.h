// Python classes of reports that describe their fields (base/fields.h). Their attributes are
// read-only, and `repr` shows them as JSON.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields_json.h"

namespace bitpress::python {

// Returns JSON as text. Bytes that are no UTF-8, as names in a model may hold, become replacement
// characters.
inline std::string TextOf(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Returns a value in a type that nanobind converts.
template <typename T>
auto AsPython(T value) {
  if constexpr (std::is_enum_v<T>) {
    return WordOf(FieldJson<T>::kWords, value);
  } else if constexpr (std::is_same_v<T, nlohmann::ordered_json>) {
    return nanobind::module_::import_("json").attr("loads")(TextOf(value));
  } else {
    return value;
  }
}
template <typename T>
std::vector<T> AsPython(const std::vector<std::shared_ptr<const T>>& values) {
  std::vector<T> result;
  for (const auto& value : values) result.push_back(*value);
  return result;
}

// Makes the class of T. `left_out` is a field that Python has in another form.
template <Described T>
nanobind::class_<T> BindFields(nanobind::module_& module, const char* name, const char* meaning,
                               std::string_view left_out = {}) {
  nanobind::class_<T> type(module, name, meaning);
  VisitFields<T>([&](const auto& field) {
    if (field.name == left_out) return;
    using FieldType = std::remove_cvref_t<decltype(field)>;
    using Value = std::remove_cvref_t<decltype(field.Get(std::declval<const T&>()))>;
    const std::string key(field.python_name.empty() ? field.name : field.python_name);
    const std::string text(field.meaning);
    if constexpr (kIsComputed<FieldType> || std::is_enum_v<Value>) {
      type.def_prop_ro(
          key.c_str(), [field](const T& self) { return AsPython(field.Get(self)); }, text.c_str());
    } else {
      type.def_ro(key.c_str(), field.member, text.c_str());
    }
  });
  type.def("__repr__", [label = std::string(name)](const T& self) {
    return label + "(" + TextOf(FieldsToJson(self)) + ")";
  });
  return type;
}

}  // namespace bitpress::python
