// The JSON of QuantPlan: ToJson and FromJson.
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "plan/config_json.h"
#include "plan/quant_plan.h"
#include "plan/strict_json.h"

namespace bitpress::plan {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json UseToJson(const TensorUse& use) {
  ordered_json object = {{"node", use.node}, {"op_type", use.op_type}, {"input", use.input}};
  if (!use.role.empty()) object["role"] = use.role;
  if (use.layer) object["layer"] = *use.layer;
  return object;
}

void AddInteger(const IntegerTreatment& integer, ordered_json& object) {
  object["granularity"] = GranularityName(integer.granularity);
  if (integer.granularity == Granularity::kPerBlock) object["block_size"] = integer.block_size;
  object["symmetric"] = integer.is_symmetric;
  if (integer.is_reduced) object["reduce_range"] = true;
  if (integer.is_pair_safe) object["pair_safe"] = true;
  if (integer.may_be_unsigned) object["may_be_uint8"] = true;
  if (integer.scale_kind != formats::ScaleKind::kFloat) {
    object["scale_kind"] = formats::ScaleKindName(integer.scale_kind);
  }
  if (integer.params) {
    object["scale"] = integer.params->scale;
    object["zero_point"] = integer.params->zero_point;
  } else if (!integer.channel_params.empty()) {
    for (const formats::QParams& params : integer.channel_params) {
      object["scale"].push_back(params.scale);
      object["zero_point"].push_back(params.zero_point);
    }
  } else if (!integer.shares.empty()) {
    object["shares"] = integer.shares;
  } else {
    object["range"] = RangeMethodName(integer.range);
  }
}

void AddScaled(const TensorPlan& row, ordered_json& object) {
  object["scaled"] = true;
  if (row.scaled->scale) {
    object["scale"] = *row.scaled->scale;
  } else if (row.role == Role::kActivation) {
    object["range"] = RangeMethodName(row.scaled->range);
  }
}

ordered_json RowToJson(const TensorPlan& row) {
  ordered_json object = {
      {"value", row.value}, {"role", RoleName(row.role)}, {"format", row.format}};
  if (row.is_quantized()) {
    if (row.axis) object["axis"] = *row.axis;
    if (row.flatten) object["flatten"] = true;
    if (row.scale_choice) object["scale_choice"] = formats::ScaleChoiceName(*row.scale_choice);
    if (row.integer) {
      AddInteger(*row.integer, object);
    } else {
      object["rounding"] = formats::RoundingModeName(row.rounding);
      if (row.scaled) AddScaled(row, object);
    }
    if (!row.through.empty()) object["through"] = row.through;
    if (row.through_axis) object["through_axis"] = *row.through_axis;
    if (row.through_scale_choice) {
      object["through_scale_choice"] = formats::ScaleChoiceName(*row.through_scale_choice);
    }
    if (row.through_rounding != formats::RoundingMode::kHalfToEven) {
      object["through_rounding"] = formats::RoundingModeName(row.through_rounding);
    }
    if (row.through_integer) {
      ordered_json integer = ordered_json::object();
      AddInteger(*row.through_integer, integer);
      object["through_integer"] = std::move(integer);
    }
  } else {
    object["reason"] = row.reason;
  }
  object["uses"] = ordered_json::array();
  for (const TensorUse& use : row.uses) object["uses"].push_back(UseToJson(use));
  if (row.is_graph_output) object["graph_output"] = true;
  return object;
}

ordered_json CacheToJson(const CachePlan& cache) {
  ordered_json object = {{"value", cache.value},
                         {"past", cache.past},
                         {"node", cache.node},
                         {"op_type", cache.op_type},
                         {"format", cache.format}};
  if (cache.is_quantized()) {
    object["granularity"] = GranularityName(cache.granularity);
    object["range"] = RangeMethodName(cache.range);
    if (!cache.scales.empty()) object["scales"] = cache.scales;
  } else {
    object["reason"] = cache.reason;
  }
  return object;
}

// The value of a setting in a field of a row, which its parser checks.
void ReadCacheSetting(ObjectReader& reader, const char* field, QuantConfig& config) {
  if (reader.Has(field)) {
    ApplySetting(config, fmt::format("kv_cache_{}", field), reader.String(field));
  }
}

CachePlan CacheFromJson(const json& object, size_t index) {
  ObjectReader reader(object, fmt::format("caches[{}]", index));
  CachePlan cache{.node = reader.String("node"),
                  .op_type = reader.String("op_type"),
                  .past = reader.String("past"),
                  .value = reader.String("value"),
                  .format = ToLower(Trim(reader.String("format")))};
  return WithContext(fmt::format("caches[{}] ('{}')", index, cache.value), [&] {
    if (cache.is_quantized()) {
      cache.format = formats::FindFormat(cache.format).name;
      QuantConfig config;
      ReadCacheSetting(reader, "granularity", config);
      ReadCacheSetting(reader, "range", config);
      cache.granularity = config.kv_cache_granularity;
      cache.range = config.kv_cache_range;
      if (reader.Has("scales")) {
        for (const json& scale : reader.Array("scales")) {
          if (!scale.is_number()) Fail(ErrorCode::kInvalidArgument, "'scales' are numbers");
          cache.scales.push_back(scale.get<float>());
        }
      }
    } else {
      cache.reason = reader.Has("reason") ? reader.String("reason") : "set in the plan";
    }
    reader.Finish();
    return cache;
  });
}

TensorUse UseFromJson(const json& object, const std::string& where) {
  ObjectReader reader(object, where);
  TensorUse use{reader.String("node"), reader.String("op_type"), reader.Int("input")};
  if (reader.Has("role")) use.role = reader.String("role");
  if (reader.Has("layer")) use.layer = reader.Int("layer");
  if (use.input < 0) {
    Fail(ErrorCode::kInvalidArgument, "{}: 'input' is {}; inputs count from 0", where, use.input);
  }
  reader.Finish();
  return use;
}

// Reads the parameters that a plan gives: one, or one for each index of a weight's axis or block.
void ReadParams(ObjectReader& reader, const formats::FormatSpec& spec, const TensorPlan& row,
                IntegerTreatment& integer) {
  const std::vector<double> scales = reader.Numbers("scale");
  std::vector<double> zero_points(scales.size(), 0);
  if (reader.Has("zero_point")) zero_points = reader.Numbers("zero_point");
  if (zero_points.size() == 1) zero_points.resize(scales.size(), zero_points.front());
  const bool has_many = row.role == Role::kWeight && integer.granularity != Granularity::kPerTensor;
  if (zero_points.size() != scales.size() || (scales.size() > 1 && !has_many)) {
    Fail(ErrorCode::kInvalidArgument,
         "{} scales and {} zero points: a weight per_axis has one of both for each index of its "
         "axis, a weight per_block one for each block, other tensors have one",
         scales.size(), zero_points.size());
  }
  const formats::CodeRange codes = formats::IntegerRange(spec.element_type);
  const int64_t middle = codes.quant_min < 0 ? 0 : (codes.quant_max + 1) / 2;
  std::vector<formats::QParams> all;
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto scale = static_cast<float>(scales[i]);
    constexpr double kMost = 4294967295.0;  // the largest code of all formats
    const bool is_whole =
        zero_points[i] == std::round(zero_points[i]) && std::abs(zero_points[i]) <= kMost;
    const auto zero_point = is_whole ? static_cast<int64_t>(zero_points[i]) : codes.quant_min - 1;
    if (!(scale > 0) || std::isinf(scale) || zero_point < codes.quant_min ||
        zero_point > codes.quant_max) {
      Fail(ErrorCode::kInvalidArgument,
           "scale {} and zero point {} are none of {}: a scale is positive and finite, a zero "
           "point a code ({} to {})",
           scale, zero_points[i], spec.name, codes.quant_min, codes.quant_max);
    }
    if (scales.size() > 1 && integer.is_symmetric && zero_point != middle) {
      Fail(ErrorCode::kInvalidArgument,
           "zero point {} of a symmetric weight: it is {}, or 'symmetric' is false", zero_point,
           middle);
    }
    all.push_back({scale, zero_point});
  }
  if (has_many) {
    integer.channel_params = std::move(all);
  } else {
    integer.params = all.front();
  }
}

IntegerTreatment ReadInteger(ObjectReader& reader, const formats::FormatSpec& spec,
                             const TensorPlan& row) {
  IntegerTreatment integer;
  if (reader.Has("granularity")) {
    integer.granularity = ParseGranularity(reader.String("granularity"));
  }
  if (integer.granularity == Granularity::kPerBlock) {
    integer.block_size = reader.Int("block_size");
    if (integer.block_size < 1 || integer.block_size > formats::kMaxBlockSize) {
      Fail(ErrorCode::kInvalidArgument, "'block_size' is {}; it is 1 to {}", integer.block_size,
           formats::kMaxBlockSize);
    }
  }
  if (row.role == Role::kActivation && integer.granularity != Granularity::kPerTensor) {
    Fail(ErrorCode::kInvalidArgument, "activations have one scale: 'granularity' is per_tensor");
  }
  const bool is_signed = formats::IntegerRange(spec.element_type).quant_min < 0;
  integer.is_symmetric = reader.Has("symmetric") ? reader.Bool("symmetric") : is_signed;
  integer.is_reduced = reader.Has("reduce_range") && reader.Bool("reduce_range");
  integer.is_pair_safe = reader.Has("pair_safe") && reader.Bool("pair_safe");
  if (integer.is_pair_safe && (row.role != Role::kWeight || spec.name != "int8")) {
    Fail(ErrorCode::kInvalidArgument, "'pair_safe' is for int8 weights, not for {} {}s", spec.name,
         RoleName(row.role));
  }
  integer.may_be_unsigned = reader.Has("may_be_uint8") && reader.Bool("may_be_uint8");
  if (integer.may_be_unsigned && !integer.is_pair_safe) {
    Fail(ErrorCode::kInvalidArgument, "'may_be_uint8' is for weights with 'pair_safe'");
  }
  if (reader.Has("scale_kind")) {
    integer.scale_kind = formats::ParseScaleKind(reader.String("scale_kind"));
  }
  if (reader.Has("range")) integer.range = ParseRangeMethod(reader.String("range"));
  if (reader.Has("shares")) integer.shares = reader.String("shares");
  if (reader.Has("scale")) ReadParams(reader, spec, row, integer);
  return integer;
}

ScaledTreatment ReadScaled(ObjectReader& reader, const formats::FormatSpec& spec,
                           const TensorPlan& row) {
  if (spec.scaled_maximum == 0) {
    Fail(ErrorCode::kInvalidArgument, "'scaled' is for {}, not for {}", formats::ScaledFormats(),
         spec.name);
  }
  ScaledTreatment scaled;
  if (row.role == Role::kActivation && reader.Has("range")) {
    scaled.range = ParseRangeMethod(reader.String("range"));
  }
  if (reader.Has("scale")) {
    const auto scale = static_cast<float>(reader.Number("scale"));
    if (!(scale > 0) || std::isinf(scale)) {
      Fail(ErrorCode::kInvalidArgument, "scale {} is not positive and finite", scale);
    }
    scaled.scale = scale;
  }
  return scaled;
}

// Reads the format that an activation goes through, with the scale of an integer.
void ReadThrough(ObjectReader& reader, TensorPlan& row) {
  const formats::FormatSpec spec = formats::FindFormat(ToLower(Trim(reader.String("through"))));
  row.through = spec.name;
  if (row.role != Role::kActivation) {
    Fail(ErrorCode::kInvalidArgument, "'through' is for activations");
  }
  if (spec.is_blocked() && reader.Has("through_axis")) {
    row.through_axis = reader.Int("through_axis");
  }
  if (spec.is_blocked() && reader.Has("through_scale_choice")) {
    row.through_scale_choice = formats::ParseScaleChoice(reader.String("through_scale_choice"));
  }
  if (!spec.is_integer() && reader.Has("through_rounding")) {
    row.through_rounding = formats::ParseRoundingMode(reader.String("through_rounding"));
  }
  if (spec.is_integer()) {
    ObjectReader integer(reader.Object("through_integer"), "through_integer");
    row.through_integer = ReadInteger(integer, spec, row);
    integer.Finish();
  }
}

// Reads the fields of a quantized row.
void ReadTreatment(ObjectReader& reader, TensorPlan& row) {
  const formats::FormatSpec spec = formats::FindFormat(row.format);
  row.format = spec.name;
  if (reader.Has("flatten")) row.flatten = reader.Bool("flatten");
  if (row.flatten && row.role == Role::kActivation) {
    Fail(ErrorCode::kInvalidArgument, "'flatten' is for weights; no operator does it at run time");
  }
  if (reader.Has("rounding")) row.rounding = formats::ParseRoundingMode(reader.String("rounding"));
  if (spec.is_integer()) row.integer = ReadInteger(reader, spec, row);
  if (reader.Has("scaled") && reader.Bool("scaled")) row.scaled = ReadScaled(reader, spec, row);
  const bool has_axis =
      spec.is_blocked() || (row.integer && row.integer->granularity != Granularity::kPerTensor);
  const bool has_blocks =
      spec.is_blocked() || (row.integer && row.integer->granularity == Granularity::kPerBlock);
  if (has_axis) row.axis = reader.Int("axis");
  if (spec.is_blocked()) {
    row.scale_choice = formats::ParseScaleChoice(reader.String("scale_choice"));
  } else if ((!has_axis && reader.Has("axis")) || reader.Has("scale_choice") ||
             (row.flatten && !has_blocks)) {
    Fail(ErrorCode::kInvalidArgument,
         "format {} has no blocks, so 'axis', 'flatten' and 'scale_choice' mean nothing",
         row.format);
  }
  if (reader.Has("through")) {
    ReadThrough(reader, row);
  }
  if (!spec.is_integer()) formats::Validate(row.Spec());
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

constexpr std::string_view kEqualizePrefix = "equalize_";

// Writes the options of equalization by the words of the settings `equalize_...`.
ordered_json EqualizationToJson(const EqualizeOptions& options) {
  QuantConfig config;
  config.equalization = options;
  ordered_json object;
  for (const Setting& setting : AllSettings()) {
    if (!setting.key.starts_with(kEqualizePrefix)) continue;
    const std::string text = setting.get(config);
    ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) value = text;  // a word
    if (value.is_number() && setting.has_fraction) value = value.get<double>();
    object[std::string(setting.key.substr(kEqualizePrefix.size()))] = std::move(value);
  }
  return object;
}

EqualizeOptions ReadEqualization(const json& object) {
  ObjectReader reader(object, "equalize");
  QuantConfig config;
  for (const Setting& setting : AllSettings()) {
    if (!setting.key.starts_with(kEqualizePrefix)) continue;
    const std::string key(setting.key.substr(kEqualizePrefix.size()));
    if (reader.Has(key.c_str())) ApplySetting(config, setting.key, reader.Text(key.c_str()));
  }
  reader.Finish();
  return config.equalization;
}

}  // namespace

std::string ToJson(const QuantPlan& plan) {
  // The outermost level is written by hand, so that each tensor stands on one line.
  try {
    std::string text = "{\n";
    text += fmt::format("  \"bitpress_plan\": {},\n", QuantPlan::kVersion);
    const ordered_json model = {{"name", plan.model_name}, {"opset", plan.opset}};
    text += fmt::format("  \"model\": {},\n", model.dump());
    text += fmt::format("  \"config\": {},\n", ToJson(plan.config));
    text += fmt::format("  \"operators\": \"{}\",\n", OperatorSetName(plan.operators));
    if (const auto& equalization = plan.rewrites.equalization) {
      text += fmt::format("  \"equalize\": {},\n", EqualizationToJson(*equalization).dump());
    }
    if (plan.rewrites.rotation > 0) {
      text += fmt::format("  \"rotate\": {},\n", plan.rewrites.rotation);
    }
    if (!plan.caches.empty()) {
      text += "  \"caches\": [";
      for (size_t i = 0; i < plan.caches.size(); ++i) {
        text += fmt::format("{}\n    {}", i == 0 ? "" : ",", CacheToJson(plan.caches[i]).dump());
      }
      text += "\n  ],\n";
    }
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

QuantPlan FromJson(std::string_view text) {
  const json document = ParseJson(text);
  ObjectReader reader(document, "plan");
  if (!reader.Has("bitpress_plan")) {
    Fail(ErrorCode::kInvalidArgument,
         "plan: the key 'bitpress_plan' is missing; is this a file written by `bitpress plan`?");
  }
  CheckFormatVersion("plan", reader.Int("bitpress_plan"), QuantPlan::kVersion);
  QuantPlan plan;
  if (reader.Has("model")) {
    ObjectReader model(reader.Object("model"), "model");
    plan.model_name = model.String("name");
    plan.opset = model.Int("opset");
    model.Finish();
  }
  if (reader.Has("config")) plan.config = ReadConfig(reader.Object("config"), "config");
  plan.operators = WithContext("operators", [&] {
    return reader.Has("operators") ? ParseOperatorSet(reader.String("operators"))
                                   : OperatorSet::kBitpress;
  });
  if (reader.Has("equalize")) {
    plan.rewrites.equalization = ReadEqualization(reader.Object("equalize"));
  }
  if (reader.Has("rotate")) {
    QuantConfig config;
    ApplySetting(config, "rotate", std::to_string(reader.Int("rotate")));
    plan.rewrites.rotation = config.rotate;
  }
  const Rewrites requested = ResolveRewrites(plan.config);
  plan.rewrites.widens_half = requested.widens_half;
  plan.rewrites.half = requested.half;
  plan.rewrites.passes = requested.passes;
  if (reader.Has("caches")) {
    for (const json& row : reader.Array("caches")) {
      plan.caches.push_back(CacheFromJson(row, plan.caches.size()));
    }
  }
  for (const json& row : reader.Array("tensors")) {
    plan.tensors.push_back(RowFromJson(row, plan.tensors.size()));
  }
  reader.Finish();
  return plan;
}

}  // namespace bitpress::plan
