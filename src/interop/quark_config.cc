// The dictionary of AMD Quark's QConfig: formats of a layer's tensors for all layers, for types of
// operators and for named ones, and algorithms. Python's bitpress.compat.quark carries out all of
// its words.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "interop/files.h"
#include "interop/layer_decisions.h"
#include "interop/quark_algorithms.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using plan::Granularity;
using plan::ObjectReader;
using Settings = std::vector<std::pair<std::string, std::string>>;
using RangeKind = plan::RangeMethod::Kind;

constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kDataTypes{
    {{"Int4", "int4"},
     {"UInt4", "uint4"},
     {"Int8", "int8"},
     {"UInt8", "uint8"},
     {"Int16", "int16"},
     {"UInt16", "uint16"},
     {"Int32", "int32"},
     {"UInt32", "uint32"},
     {"Float16", "fp16"},
     {"BFloat16", "bf16"},
     {"BFP16", "bfp16"},
     {"MX4", "mx4"},
     {"MX6", "mx6"},
     {"MX9", "mx9"},
     {"MXFP8E5M2", "mxfp8_e5m2"},
     {"MXFP8E4M3", "mxfp8_e4m3"},
     {"MXFP6E3M2", "mxfp6_e3m2"},
     {"MXFP6E2M3", "mxfp6_e2m3"},
     {"MXFP4E2M1", "mxfp4_e2m1"},
     {"MXInt8", "mxint8"},
     {"None", "none"}}};
constexpr std::array<std::pair<std::string_view, RangeKind>, 6> kMethods{
    {{"MinMax", RangeKind::kMinMax},
     {"MinMSE", RangeKind::kMse},
     {"Percentile", RangeKind::kPercentile},
     {"Entropy", RangeKind::kEntropy},
     {"LayerwisePercentile", RangeKind::kLayerwisePercentile},
     {"Distribution", RangeKind::kDistribution}}};
constexpr std::array<std::pair<std::string_view, formats::ScaleKind>, 3> kScaleTypes{
    {{"Float32", formats::ScaleKind::kFloat},
     {"PowerOf2", formats::ScaleKind::kPowerOfTwo},
     {"Int16", formats::ScaleKind::kInt16}}};
constexpr std::array<std::pair<std::string_view, Granularity>, 3> kGranularities{
    {{"Tensor", Granularity::kPerTensor},
     {"Channel", Granularity::kPerAxis},
     {"Group", Granularity::kPerBlock}}};

// Reads "CalibMethod.MinMax", or the word behind the point alone.
template <typename T>
T Member(Words<T> words, ObjectReader& reader, const char* key, T otherwise) {
  if (!reader.Has(key)) return otherwise;
  const std::string text = reader.String(key);
  return ParseWord<T>(words, text.substr(text.rfind('.') + 1), key);
}

// Reads the specification of a tensor as settings that begin with `side`: activation, weight, bias.
Settings SpecOf(const json& spec, const std::string& side, double percentile) {
  ObjectReader reader(spec, side);
  const bool is_bias = side == "bias";
  const auto format = Member<std::string_view>(kDataTypes, reader, "data_type", "int8");
  Settings settings{{is_bias ? "biases" : side + "s", std::string(format)}};
  const bool is_symmetric = !reader.Has("symmetric") || reader.Bool("symmetric");
  const auto method = Member<RangeKind>(kMethods, reader, "calibration_method", RangeKind::kMinMax);
  const auto scale = Member<formats::ScaleKind>(kScaleTypes, reader, "scale_type", {});
  const auto granularity = Member<Granularity>(kGranularities, reader, "quant_granularity", {});
  reader.Finish();
  if (is_bias || !IntegerBitsOf(std::string(format))) return settings;
  settings.emplace_back(side + "_symmetric", is_symmetric ? "true" : "false");
  settings.emplace_back(side + "_scale_kind", std::string(formats::ScaleKindName(scale)));
  if (side == "weight") {
    settings.emplace_back("weight_granularity", std::string(plan::GranularityName(granularity)));
    // Weights have all of their range in Quark, whatever the method, unless it is MinMSE.
    settings.emplace_back("weight_range", method == RangeKind::kMse ? "mse" : "min_max");
  } else {
    settings.emplace_back(side + "_range",
                          plan::RangeMethodName({.kind = method, .percentile = percentile}));
  }
  return settings;
}

// Reads the specifications of a layer's tensors.
Settings LayerOf(const json& layer, double percentile, std::vector<std::string>& notes) {
  ObjectReader reader(layer, "layer");
  Settings settings;
  const auto add = [&](const char* key, const char* side) {
    if (!reader.Has(key) || layer.at(key).is_null()) return;
    const Settings more = SpecOf(reader.Object(key), side, percentile);
    settings.insert(settings.end(), more.begin(), more.end());
  };
  add("activation", "activation");
  add("input_tensors", "activation");
  add("weight", "weight");
  add("bias", "bias");
  if (reader.Has("output_tensors") && !layer.at("output_tensors").is_null()) {
    notes.push_back("'output_tensors' is left out: a value has the format of its readers");
  }
  reader.Finish();
  return settings;
}

// Reads a name, a regular expression that begins with ^, or the ends of a subgraph.
plan::Rule NodesOf(const json& nodes) {
  if (nodes.is_string()) {
    const auto name = nodes.get<std::string>();
    plan::Rule rule{.is_optional = true};
    (name.starts_with("^") ? rule.nodes : rule.names) = {name};
    return rule;
  }
  const auto are_names = [](const json& list) {
    return list.is_array() &&
           std::ranges::all_of(list, [](const json& name) { return name.is_string(); });
  };
  if (nodes.is_array() && nodes.size() == 2 && are_names(nodes[0]) && are_names(nodes[1])) {
    return {.from = nodes[0].get<std::vector<std::string>>(),
            .to = nodes[1].get<std::vector<std::string>>()};
  }
  Fail(ErrorCode::kInvalidArgument,
       "{} is neither a name, a regular expression that begins with ^, nor a subgraph "
       "[[starts], [ends]]",
       nodes.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Reads what stays float: a name, a subgraph, or a list of subgraphs.
void ReadExcluded(const json& item, Decisions& decisions) {
  const bool is_list = item.is_array() && !item.empty() && item[0].is_array() && !item[0].empty() &&
                       item[0][0].is_array();
  for (const json& nodes : is_list ? item : json::array({item})) {
    plan::Rule rule = NodesOf(nodes);
    rule.exclude = true;
    decisions.rules.push_back(std::move(rule));
  }
}

// Reads a list of pairs [layer, names]: `rule_of` makes the rule of one of the names.
template <typename RuleOf>
void ReadLayers(ObjectReader& reader, const char* key, double percentile, const RuleOf& rule_of,
                Decisions& decisions) {
  if (!reader.Has(key)) return;
  for (const json& pair : reader.Array(key)) {
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_array()) {
      Fail(ErrorCode::kInvalidArgument, "{}: its items are pairs [layer, names]", key);
    }
    Settings settings;
    if (!pair[0].is_null()) settings = LayerOf(pair[0], percentile, decisions.notes);
    for (const json& name : pair[1]) {
      plan::Rule rule = rule_of(name);
      rule.exclude = pair[0].is_null();
      rule.settings = settings;
      if (rule.exclude || !settings.empty()) decisions.rules.push_back(std::move(rule));
    }
  }
}

// Reads the options that are decisions, and notes the others.
double ReadOptions(const json& options, Decisions& decisions) {
  double percentile = plan::RangeMethod().percentile;
  for (const auto& [key, value] : options.items()) {
    if (key == "Percentile" && value.is_number()) {
      percentile = value.get<double>();
    } else if (key == "TensorQuantOverrides" && IsOverrides(value)) {
      decisions.tensors = FromOverrides(value).tensors;
    } else {
      decisions.notes.push_back(fmt::format("extra_options: '{}' is left out", key));
    }
  }
  return percentile;
}

// A key of a layer and the decision that it is about.
struct Side {
  const char* key;
  const Decision* LayerDecision::*decision;
};
constexpr Side kSides[] = {{"input_tensors", &LayerDecision::activation},
                           {"weight", &LayerDecision::weight},
                           {"bias", &LayerDecision::bias}};

// Returns Quark's word for a value, "" if it has none.
template <typename T>
std::string WordIn(Words<T> words, T value, std::string_view kind) {
  for (const auto& [word, its] : words) {
    if (its == value) return kind.empty() ? std::string(word) : fmt::format("{}.{}", kind, word);
  }
  return "";
}

ordered_json SpecFor(const Decision& decision, std::vector<std::string>& notes) {
  const std::string type = WordIn<std::string_view>(kDataTypes, decision.format, "");
  std::string method = WordIn<RangeKind>(kMethods, decision.range.kind, "CalibMethod");
  if (type.empty() || decision.is_dynamic) {
    notes.push_back(fmt::format("'{}' is left out: {}{}", decision.value, decision.format,
                                decision.is_dynamic ? " with scales at run time" : ""));
    return {};
  }
  if (method.empty()) {
    notes.push_back(fmt::format("'{}': its range method is left out: {}", decision.value,
                                plan::RangeMethodName(decision.range)));
    method = "CalibMethod.MinMax";
  }
  std::string scale = WordIn<formats::ScaleKind>(kScaleTypes, decision.scale_kind, "ScaleType");
  if (scale.empty()) {
    notes.push_back(fmt::format("'{}': its scale kind is left out: {}", decision.value,
                                formats::ScaleKindName(decision.scale_kind)));
    scale = "ScaleType.Float32";
  }
  return {{"symmetric", decision.is_symmetric},
          {"scale_type", scale},
          {"calibration_method", method},
          {"quant_granularity",
           WordIn<Granularity>(kGranularities, decision.granularity, "QuantGranularity")},
          {"data_type", type}};
}

}  // namespace

bool IsQuark(const json& file) { return file.is_object() && file.contains("global_config"); }

Decisions FromQuark(const json& file) {
  Decisions decisions{.names_all = false, .tells_unmatched = true};
  ObjectReader reader(file, "configuration");
  double percentile = plan::RangeMethod().percentile;
  if (reader.Has("extra_options")) {
    percentile = ReadOptions(reader.Object("extra_options"), decisions);
  }
  decisions.settings = {{"activations", "none"}, {"weights", "none"}};
  const Settings global = LayerOf(reader.Object("global_config"), percentile, decisions.notes);
  decisions.settings.insert(decisions.settings.end(), global.begin(), global.end());
  // From large to small, so that the smaller counts.
  ReadLayers(
      reader, "layer_type_config", percentile,
      [](const json& type) {
        if (!type.is_string()) Fail(ErrorCode::kInvalidArgument, "layer_type_config: no type");
        return plan::Rule{.op_types = {type.get<std::string>()}, .is_optional = true};
      },
      decisions);
  ReadLayers(reader, "specific_layer_config", percentile, NodesOf, decisions);
  if (reader.Has("exclude")) {
    for (const json& item : reader.Array("exclude")) ReadExcluded(item, decisions);
  }
  const bool has_algorithms = reader.Has("algo_config") && !file.at("algo_config").is_null();
  const Settings algorithms =
      ReadAlgorithms(has_algorithms ? reader.Array("algo_config") : json::array(), decisions.notes);
  decisions.settings.insert(decisions.settings.end(), algorithms.begin(), algorithms.end());
  if (reader.Has("use_external_data_format") && reader.Bool("use_external_data_format")) {
    decisions.notes.push_back("'use_external_data_format' is left out");
  }
  reader.Finish();
  return decisions;
}

ordered_json ToQuark(const Decisions& decisions, std::vector<std::string>& notes) {
  std::map<const Decision*, ordered_json> specs;
  for (const Decision& decision : decisions.tensors) specs[&decision] = SpecFor(decision, notes);
  const auto has = [&](const Decision* decision) {
    return decision != nullptr && !specs.at(decision).is_null();
  };
  const std::vector<LayerDecision> layers = LayersOf(decisions);
  ordered_json global = ordered_json::object();
  for (const Side& side : kSides) {
    std::map<ordered_json, size_t> counts;
    for (const LayerDecision& layer : layers) {
      if (has(layer.*side.decision)) ++counts[specs.at(layer.*side.decision)];
    }
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; });
    if (most != counts.end()) global[side.key] = most->first;
  }
  std::map<ordered_json, std::vector<std::string>> others;
  for (const LayerDecision& layer : layers) {
    ordered_json its = ordered_json::object();
    bool is_like_global = true;
    for (const Side& side : kSides) {
      if (!has(layer.*side.decision)) continue;
      its[side.key] = specs.at(layer.*side.decision);
      is_like_global &= its[side.key] == global[side.key];
    }
    if (!is_like_global) others[its].push_back(layer.node);
    if (!has(layer.activation) && global.contains("input_tensors")) {
      notes.push_back(
          fmt::format("'{}': its activations stay float here, and not in AMD Quark", layer.node));
    }
  }
  ordered_json specific = ordered_json::array();
  for (const auto& [its, names] : others) specific.push_back({its, names});
  ordered_json excluded = ordered_json::array();
  for (const Decisions::FloatNode& node : decisions.float_nodes) excluded.push_back(node.name);
  const auto has_params = [](const Decision& decision) { return !decision.params.empty(); };
  if (const auto num = std::ranges::count_if(decisions.tensors, has_params); num > 0) {
    notes.push_back(fmt::format("scales of {} are left out: AMD Quark chooses them",
                                WithNoun(static_cast<uint64_t>(num), "tensor")));
  }
  ordered_json file = {{"global_config", global},
                       {"specific_layer_config", specific},
                       {"layer_type_config", ordered_json::array()},
                       {"exclude", excluded},
                       {"algo_config", WriteAlgorithms(decisions.request, notes)},
                       {"use_external_data_format", false}};
  // Quark has one for all tensors.
  const auto cut = std::ranges::find_if(decisions.tensors, [](const Decision& decision) {
    return decision.range.kind == RangeKind::kPercentile &&
           decision.range.percentile != plan::RangeMethod().percentile;
  });
  if (cut != decisions.tensors.end()) {
    file["extra_options"] = {{"Percentile", cut->range.percentile}};
  }
  return file;
}

}  // namespace bitpress::interop
