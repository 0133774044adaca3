// QuantPlan <-> JSON.
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/quant_plan.h"
#include "plan/strict_json.h"

namespace bitpress::plan {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json UseToJson(const TensorUse& use) {
  return {{"node", use.node}, {"op_type", use.op_type}, {"input", use.input}};
}

ordered_json RowToJson(const TensorPlan& row) {
  ordered_json object = {
      {"value", row.value}, {"role", RoleName(row.role)}, {"format", row.format}};
  if (row.is_quantized()) {
    if (row.axis) object["axis"] = *row.axis;
    if (row.flatten) object["flatten"] = true;
    if (row.scale_choice) object["scale_choice"] = formats::ScaleChoiceName(*row.scale_choice);
    object["rounding"] = formats::RoundingModeName(row.rounding);
  } else {
    object["reason"] = row.reason;
  }
  object["uses"] = ordered_json::array();
  for (const TensorUse& use : row.uses) object["uses"].push_back(UseToJson(use));
  if (row.is_graph_output) object["graph_output"] = true;
  return object;
}

ordered_json ConfigToJson(const QuantConfig& config) {
  ordered_json object = {{"name", config.name}};
  for (const Setting& setting : AllSettings()) {
    if (!setting.is_derived) object[std::string(setting.key)] = setting.get(config);
  }
  return object;
}

QuantConfig ConfigFromJson(const json& object) {
  ObjectReader reader(object, "config");
  QuantConfig config;
  if (reader.Has("name")) config.name = reader.String("name");
  for (const Setting& setting : AllSettings()) {
    const std::string key(setting.key);
    if (setting.is_derived || !reader.Has(key.c_str())) continue;
    WithContext("config", [&] { ApplySetting(config, key, reader.String(key.c_str())); });
  }
  reader.Finish();
  return config;
}

TensorUse UseFromJson(const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  TensorUse use{reader.String("node"), reader.String("op_type"), reader.Int("input")};
  if (use.input < 0) {
    Fail(ErrorCode::kInvalidArgument, "{}: 'input' is {}; inputs count from 0", where, use.input);
  }
  reader.Finish();
  return use;
}

// The fields of a quantized row.
void ReadTreatment(ObjectReader& reader, TensorPlan& row) {
  const formats::FormatSpec spec = formats::FindFormat(row.format);
  if (spec.is_integer()) {
    Fail(ErrorCode::kUnsupported, "format '{}' needs scales from calibration", row.format);
  }
  row.format = spec.name;
  if (reader.Has("flatten")) row.flatten = reader.Bool("flatten");
  if (row.flatten && row.role == Role::kActivation) {
    Fail(ErrorCode::kInvalidArgument, "'flatten' is for weights; no operator does it at run time");
  }
  if (reader.Has("rounding")) row.rounding = formats::ParseRoundingMode(reader.String("rounding"));
  if (spec.is_blocked()) {
    row.axis = reader.Int("axis");
    row.scale_choice = formats::ParseScaleChoice(reader.String("scale_choice"));
  } else if (reader.Has("axis") || reader.Has("scale_choice") || row.flatten) {
    Fail(ErrorCode::kInvalidArgument,
         "format {} has no blocks, so 'axis', 'flatten' and 'scale_choice' mean nothing",
         row.format);
  }
  formats::Validate(row.Spec());
}

TensorPlan RowFromJson(const json& object, size_t index) {
  std::string where = fmt::format("tensors[{}]", index);
  ObjectReader reader(object, where);
  TensorPlan row;
  row.value = reader.String("value");
  where = fmt::format("tensors[{}] ('{}')", index, row.value);
  return WithContext(where, [&] {
    ObjectReader fields(object, "row");
    fields.Has("value");
    row.role = ParseRole(fields.String("role"));
    row.format = ToLower(Trim(fields.String("format")));
    if (row.is_quantized()) {
      ReadTreatment(fields, row);
    } else {
      row.reason = fields.Has("reason") ? fields.String("reason") : "";
      if (row.reason.empty()) row.reason = "set in the plan";
    }
    size_t number = 0;
    for (const json& use : fields.Array("uses")) {
      row.uses.push_back(UseFromJson(use, fmt::format("uses[{}]", number++)));
    }
    row.is_graph_output = fields.Has("graph_output") && fields.Bool("graph_output");
    fields.Finish();
    return row;
  });
}

}  // namespace

std::string ToJson(const QuantPlan& plan) {
  // By hand at the outermost level, so that each tensor stands on one line.
  try {
    std::string text = "{\n";
    text += fmt::format("  \"bitpress_plan\": {},\n", QuantPlan::kVersion);
    const ordered_json model = {{"name", plan.model_name}, {"opset", plan.opset}};
    text += fmt::format("  \"model\": {},\n", model.dump());
    text += fmt::format("  \"config\": {},\n", ConfigToJson(plan.config).dump());
    text += fmt::format("  \"operators\": \"{}\",\n", OperatorSetName(plan.operators));
    text += "  \"tensors\": [";
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      text += fmt::format("{}\n    {}", i == 0 ? "" : ",", RowToJson(plan.tensors[i]).dump());
    }
    text += plan.tensors.empty() ? "]\n}\n" : "\n  ]\n}\n";
    return text;
  } catch (const json::exception&) {
    Fail(ErrorCode::kUnsupported, "the model has names that are not UTF-8; JSON cannot hold them");
  }
}

std::string ToJson(const QuantConfig& config) {
  return ConfigToJson(config).dump(-1, ' ', false, json::error_handler_t::replace);
}

QuantPlan FromJson(std::string_view text) {
  const json document = ParseJson(text);
  ObjectReader reader(document, "plan");
  if (!reader.Has("bitpress_plan")) {
    Fail(ErrorCode::kInvalidArgument,
         "plan: the key 'bitpress_plan' is missing; is this a file written by `bitpress plan`?");
  }
  const int64_t version = reader.Int("bitpress_plan");
  if (version != QuantPlan::kVersion) {
    Fail(ErrorCode::kInvalidArgument, "plan: version {} is not known here; this reads version {}",
         version, QuantPlan::kVersion);
  }
  QuantPlan plan;
  if (reader.Has("model")) {
    ObjectReader model(reader.Object("model"), "model");
    plan.model_name = model.String("name");
    plan.opset = model.Int("opset");
    model.Finish();
  }
  if (reader.Has("config")) plan.config = ConfigFromJson(reader.Object("config"));
  plan.operators = WithContext("operators", [&] {
    return reader.Has("operators") ? ParseOperatorSet(reader.String("operators"))
                                   : OperatorSet::kBitpress;
  });
  for (const json& row : reader.Array("tensors")) {
    plan.tensors.push_back(RowFromJson(row, plan.tensors.size()));
  }
  reader.Finish();
  return plan;
}

}  // namespace bitpress::plan
