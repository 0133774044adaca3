// One description of a report: the names, members and meanings of its fields. Its JSON
// (base/fields_json.h) and its Python class (python/bindings/field_classes.h) follow from it, so
// that a field is added in one place. A report describes itself beside its declaration:
//
//   struct Speed {
//     double ratio = 0;
//     double low_ratio = 0;
//     bool is_slower() const;
//   };
//   constexpr auto FieldsOf(const Speed*) {
//     return std::tuple(
//         Field{"ratio", &Speed::ratio, "Time over that of the given model."},
//         Field{"low_ratio", &Speed::low_ratio},
//         ComputedField{"is_slower", [](const Speed& speed) { return speed.is_slower(); }});
//   }
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>

namespace bitpress {

// A field that is a member.
template <typename Owner, typename Value>
struct Field {
  std::string_view name;  // its key in JSON
  Value Owner::*member;
  std::string_view meaning = {};      // its docstring; "": the name says it
  std::string_view python_name = {};  // "": that of JSON

  const Value& Get(const Owner& owner) const { return owner.*member; }
};
template <typename Owner, typename Value, typename... Rest>
Field(const char*, Value Owner::*, Rest...) -> Field<Owner, Value>;

// A field that follows from others. It is written and never read.
template <typename Getter>
struct ComputedField {
  std::string_view name;
  Getter getter;
  std::string_view meaning = {};
  std::string_view python_name = {};

  template <typename Owner>
  auto Get(const Owner& owner) const {
    return getter(owner);
  }
};
template <typename Getter, typename... Rest>
ComputedField(const char*, Getter, Rest...) -> ComputedField<Getter>;

// A type with such a description. Its function is found by the namespace of the type.
template <typename T>
concept Described = std::is_class_v<T> && requires(const T* type) {
  FieldsOf(type);
};

template <typename T>
inline constexpr bool kIsComputed = false;
template <typename Getter>
inline constexpr bool kIsComputed<ComputedField<Getter>> = true;

// Calls `visit(field)` for each field of a type, in their order.
template <Described T, typename Visitor>
constexpr void VisitFields(Visitor&& visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); },
             FieldsOf(static_cast<const T*>(nullptr)));
}

}  // namespace bitpress
