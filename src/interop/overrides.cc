// ONNX Runtime's TensorQuantOverrides as JSON: types by their names in QuantType.
#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/format_spec.h"
#include "interop/files.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using formats::QParams;
using nlohmann::json;
using nlohmann::ordered_json;
using plan::Granularity;
using plan::ObjectReader;

// Returns our name of "QInt8", "QUInt16" or "QuantType.QInt8".
std::string FormatOf(const std::string& type) {
  const std::string member = type.substr(type.rfind('.') + 1);
  const std::string name = ToLower(member.starts_with("Q") ? member.substr(1) : member);
  if (!IntegerBitsOf(name)) {
    Fail(ErrorCode::kUnsupported, "quant_type '{}' is no integer type: QInt8 and the like", type);
  }
  return name;
}

std::string TypeOf(const std::string& format) {
  const IntegerBits type = *IntegerBitsOf(format);
  return fmt::format("Q{}Int{}", type.is_signed ? "" : "U", type.bits);
}

Decision FromItems(const std::string& name, const json& items, std::vector<std::string>& notes) {
  Decision decision{.value = name};
  for (const json& item : items) {
    ObjectReader reader(item, "override");
    if (reader.Has("quant_type")) decision.format = FormatOf(reader.String("quant_type"));
    if (decision.format.empty()) Fail(ErrorCode::kUnsupported, "it has no quant_type");
    decision.is_symmetric = IntegerBitsOf(decision.format)->is_signed;
    if (reader.Has("symmetric")) decision.is_symmetric = reader.Bool("symmetric");
    if (reader.Has("axis")) {
      decision.axis = reader.Int("axis");
      decision.granularity = Granularity::kPerAxis;
    }
    if (reader.Has("convert")) {
      notes.push_back(
          fmt::format("'{}': 'convert' to another type for some readers is left out", name));
    }
    const formats::IntegerSpec spec{formats::FindFormat(decision.format).element_type,
                                    decision.is_symmetric,
                                    reader.Has("reduce_range") && reader.Bool("reduce_range")};
    const bool has_scale = reader.Has("scale"), has_zero = reader.Has("zero_point");
    const bool has_least = reader.Has("rmin"), has_most = reader.Has("rmax");
    if ((has_zero && !has_scale) || has_least != has_most || (has_scale && has_least)) {
      Fail(ErrorCode::kInvalidArgument,
           "it gives a part of its range: expected scale and zero_point, or rmin and rmax");
    }
    if (has_scale) {
      const int64_t zero = has_zero ? reader.Int("zero_point") : 0;
      decision.params.push_back({static_cast<float>(reader.Number("scale")), zero});
    } else if (has_least) {
      const double least = reader.Number("rmin"), most = reader.Number("rmax");
      if (!(least <= most)) Fail(ErrorCode::kInvalidArgument, "rmin {} and rmax {}", least, most);
      decision.params.push_back(formats::QParamsForRange(least, most, spec));
    }
    reader.Finish();
  }
  if (!decision.params.empty() && decision.params.size() != items.size()) {
    Fail(ErrorCode::kInvalidArgument, "some channels have a scale, others have none");
  }
  // One object for a tensor with an axis gives the type of all channels.
  if (decision.granularity == Granularity::kPerAxis && items.size() == 1) decision.params.clear();
  return decision;
}

}  // namespace

bool IsOverrides(const json& file) {
  return file.is_object() && !file.empty() && std::ranges::all_of(file, [](const json& items) {
           return items.is_array() && !items.empty() && items.front().is_object();
         });
}

Decisions FromOverrides(const json& file) {
  Decisions decisions{.names_all = false};
  for (const auto& [name, items] : file.items()) {
    WithContext(fmt::format("tensor '{}'", name), [&, &name = name, &items = items] {
      decisions.tensors.push_back(FromItems(name, items, decisions.notes));
    });
  }
  return decisions;
}

ordered_json ToOverrides(const Decisions& decisions, std::vector<std::string>& notes) {
  ordered_json file = ordered_json::object();
  for (const Decision& decision : decisions.tensors) {
    if (decision.format == "none") continue;
    const bool is_in_blocks = decision.granularity == Granularity::kPerBlock;
    if (!IntegerBitsOf(decision.format) || is_in_blocks) {
      notes.push_back(fmt::format("'{}' is left out: {}{}", decision.value, decision.format,
                                  is_in_blocks ? " in blocks" : ""));
      continue;
    }
    ordered_json items = ordered_json::array();
    ordered_json base = {{"quant_type", TypeOf(decision.format)},
                         {"symmetric", decision.is_symmetric}};
    const bool is_per_axis = decision.granularity == Granularity::kPerAxis;
    if (is_per_axis && decision.axis) base["axis"] = *decision.axis;
    for (const QParams& params : decision.params) {
      items.push_back(base);
      items.back()["scale"] = params.scale;
      items.back()["zero_point"] = params.zero_point;
    }
    if (items.empty()) items.push_back(base);
    file[decision.value] = items;
  }
  return file;
}

}  // namespace bitpress::interop
