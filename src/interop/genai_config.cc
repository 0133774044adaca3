// The QuantConfig of ONNX Runtime GenAI's model builder: formats of a decoder's weights, by the
// names of nodes. Activations are float there.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "interop/files.h"
#include "interop/layer_decisions.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using plan::Granularity;
using plan::ObjectReader;
using BuilderSettings = std::vector<std::pair<std::string, std::string>>;

constexpr std::array<const char*, 4> kBuilderKeys = {"io_dtype", "checkpoint_policy", "weights",
                                                     "moe"};

// Returns the configuration in a file, null if there is none.
const json* ConfigIn(const json& file) {
  if (!file.is_object()) return nullptr;
  const json* config = &file;
  for (const char* key : {"target_options", "quant_config", "quantization"}) {
    if (config->contains(key) && (*config)[key].is_object()) config = &(*config)[key];
  }
  const bool has_one = std::ranges::any_of(kBuilderKeys, [&](const char* key) {
    return config->contains(key) && ((*config)[key].is_object() || (*config)[key].is_string());
  });
  return has_one ? config : nullptr;
}

// Types of the builder: a format of ours, and whether codes are symmetric by default.
struct BuilderType {
  std::string_view word;
  std::string_view format;
  bool is_symmetric = true;
};
constexpr BuilderType kBuilderTypes[] = {
    {"none", "none"}, {"fp32", "none"},          {"fp16", "none"},  {"bf16", "none"},
    {"int8", "int8"}, {"uint8", "uint8", false}, {"int4", "int4"},  {"uint4", "uint4", false},
    {"int2", "int2"}, {"mxfp4", "mxfp4_e2m1"},   {"nvfp4", "nvfp4"}};

const BuilderType& BuilderTypeNamed(const std::string& word) {
  const auto found = std::ranges::find(kBuilderTypes, word, &BuilderType::word);
  if (found != std::end(kBuilderTypes)) return *found;
  std::vector<std::string> words;
  for (const BuilderType& type : kBuilderTypes) words.emplace_back(type.word);
  Fail(ErrorCode::kInvalidArgument, "type '{}' is not one of {}{}", word, fmt::join(words, ", "),
       DidYouMean(word, words));
}

// Methods of rounding, and how the scales are chosen here. All round to the nearest code.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMethodRanges{
    {{"default", "min_max"}, {"rtn", "min_max"}, {"k_quant", "mse"}}};

// Returns the format of a type: asymmetric codes are unsigned, as in MatMulNBits.
std::string CodesOf(const BuilderType& type, bool is_symmetric) {
  std::string format(type.format);
  const bool is_signed = format.starts_with("int");
  return is_signed && !is_symmetric ? "u" + format : format;
}

// Returns the settings of weights of a type. A block of 0 is a scale for each row.
BuilderSettings WeightSettings(const BuilderType& type, bool is_symmetric, int64_t block_size) {
  BuilderSettings settings{{"weights", CodesOf(type, is_symmetric)}};
  if (!IntegerBitsOf(settings[0].second)) return settings;
  settings.emplace_back("weight_symmetric", is_symmetric ? "true" : "false");
  settings.emplace_back("weight_granularity", block_size == 0 ? "per_axis" : "per_block");
  if (block_size > 0) settings.emplace_back("weight_block_size", fmt::format("{}", block_size));
  return settings;
}

// Reads a number, or the word for a scale for each row.
int64_t BlockSizeOf(ObjectReader& reader) {
  if (!reader.Has("block_size")) return 32;
  const std::string text = reader.Text("block_size");
  return text == "per_channel" || text == "0" ? 0 : reader.Int("block_size");
}

// Reads what an override selects, and notes what no rule can say.
plan::Rule MatchOf(const json& match, std::vector<std::string>& notes) {
  ObjectReader reader(match, "match");
  plan::Rule rule;
  const auto strings = [&](const char* key, std::vector<std::string>& list) {
    if (reader.Has(key)) list = reader.Strings(key);
  };
  strings("name", rule.names);
  strings("name_regex", rule.nodes);
  strings("role", rule.roles);
  strings("op_type", rule.op_types);
  if (reader.Has("layers")) {
    for (const json& layer : reader.Array("layers")) rule.layers.push_back(layer.dump());
  }
  const std::string preset = reader.Has("preset") ? reader.String("preset") : "";
  reader.Finish();
  if (preset == "last_matmul") {
    rule.roles = {"lm_head"};
  } else if (preset == "mixed_layers") {
    rule.roles = {"attn_qkv", "attn_v", "mlp_down"};
    rule.layers = {std::string(plan::kMixedLayers)};
    rule.is_optional = true;  // no model has all three roles
  } else if (preset == "linear_attn") {
    rule.nodes = {R"(/model/layers\.\d+/linear_attn/(qkv_proj|z_proj|out_proj)/MatMul)"};
    rule.is_optional = true;  // as for the builder, in models without such layers
    notes.emplace_back(
        "overrides: of the preset 'linear_attn' the projections are taken; name the MLPs of these "
        "layers (--rule \"roles=mlp_gate;mlp_up;mlp_down layers=0-2: weights=...\")");
  } else if (!preset.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "preset '{}' is not one of last_matmul, mixed_layers, linear_attn", preset);
  }
  return rule;
}

void ReadOverrides(const json& overrides, bool is_symmetric, Decisions& decisions) {
  std::vector<plan::Rule> rules;
  for (const json& item : overrides) {
    ObjectReader reader(item, "override");
    plan::Rule rule = MatchOf(reader.Object("match"), decisions.notes);
    const bool is_excluded = reader.Has("exclude") && reader.Bool("exclude");
    const bool has_type = reader.Has("type");
    if (is_excluded == has_type) {
      Fail(ErrorCode::kInvalidArgument, "override: it has a type, or exclude: true");
    }
    const std::string format =
        is_excluded ? "none" : CodesOf(BuilderTypeNamed(reader.String("type")), is_symmetric);
    reader.Finish();
    rule.settings = {{"weights", format}, {"embeddings", format}};
    rules.push_back(std::move(rule));
  }
  // The first override that fits counts, and of rules the last one.
  decisions.rules.insert(decisions.rules.end(), rules.rbegin(), rules.rend());
}

void ReadWeights(const json& weights, Decisions& decisions) {
  ObjectReader reader(weights, "weights");
  const BuilderType& type = BuilderTypeNamed(reader.Has("type") ? reader.String("type") : "none");
  const bool is_symmetric = reader.Has("symmetric") ? reader.Bool("symmetric") : type.is_symmetric;
  decisions.settings = WeightSettings(type, is_symmetric, BlockSizeOf(reader));
  decisions.settings.emplace_back("activations", "none");
  const std::string method = reader.Has("method") ? reader.String("method") : "default";
  const std::string_view range = ParseWord<std::string_view>(kMethodRanges, method, "method");
  if (IntegerBitsOf(decisions.settings[0].second)) {
    decisions.settings.emplace_back("weight_range", range);
  }
  std::vector<std::string> op_types = {"MatMul"};
  if (reader.Has("op_types")) op_types = reader.Strings("op_types");
  const bool has_tables = std::ranges::find(op_types, "Gather") != op_types.end();
  decisions.settings.emplace_back("embeddings", has_tables ? decisions.settings[0].second : "none");
  op_types.push_back("MoE");
  decisions.rules.push_back({.not_op_types = op_types, .exclude = true, .is_optional = true});
  if (reader.Has("accuracy_level") && reader.Int("accuracy_level") != 0) {
    decisions.notes.push_back(
        fmt::format("weights.accuracy_level is left out: give quantize --accuracy-level {}",
                    reader.Int("accuracy_level")));
  }
  if (reader.Has("overrides")) ReadOverrides(reader.Array("overrides"), is_symmetric, decisions);
  reader.Finish();
}

void ReadExperts(const json& moe, Decisions& decisions) {
  ObjectReader reader(moe, "moe");
  const BuilderType& type = BuilderTypeNamed(reader.Has("type") ? reader.String("type") : "int4");
  decisions.rules.push_back(
      {.op_types = {"MoE"},
       .is_optional = true,
       .settings = WeightSettings(type, type.is_symmetric, BlockSizeOf(reader))});
  for (const char* key : {"fc1_type", "fc2_type"}) {
    if (reader.Has(key)) decisions.notes.push_back(fmt::format("moe.{} is left out", key));
  }
  if (reader.Has("weights_prepacked") && reader.Int("weights_prepacked") > 0) {
    decisions.notes.push_back("moe.weights_prepacked is left out: it is a layout");
  }
  reader.Finish();
}

// How weights are held: bits, symmetry, and elements of a block (0: a row).
struct WeightTreatment {
  int64_t bits = 0;
  bool is_symmetric = true;
  int64_t block_size = 32;
  auto operator<=>(const WeightTreatment&) const = default;
};

// Returns nothing for weights that the builder has no type for.
std::optional<WeightTreatment> TreatmentOf(const Decision& weight) {
  const std::optional<IntegerBits> type = IntegerBitsOf(weight.format);
  const bool has_scales = weight.granularity != Granularity::kPerTensor;
  if (!type || (type->bits != 4 && type->bits != 8) || !has_scales) return std::nullopt;
  const bool is_block = weight.granularity == Granularity::kPerBlock;
  return WeightTreatment{type->bits, weight.is_symmetric, is_block ? weight.block_size : 0};
}

// Returns the treatment that most products have.
WeightTreatment MostFrequent(const std::vector<LayerDecision>& layers) {
  std::map<WeightTreatment, size_t> counts;
  for (const LayerDecision& layer : layers) {
    if (layer.op_type != "MatMul" || layer.weight == nullptr) continue;
    if (const auto treatment = TreatmentOf(*layer.weight)) ++counts[*treatment];
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; });
  return most == counts.end() ? WeightTreatment() : most->first;
}

ordered_json Excluded(const std::string& node) {
  return {{"match", {{"name", node}}}, {"exclude", true}};
}

// Returns the override of a product that differs from `base`, null if it needs none.
ordered_json OverrideOf(const LayerDecision& layer, const WeightTreatment& base,
                        std::vector<std::string>& notes) {
  const Decision& weight = *layer.weight;
  const std::optional<WeightTreatment> its = TreatmentOf(weight);
  if (!its) {
    notes.push_back(
        fmt::format("'{}' is left out: {}; it is float there", weight.value, weight.format));
    return Excluded(layer.node);
  }
  if (its->is_symmetric != base.is_symmetric || its->block_size != base.block_size) {
    notes.push_back(fmt::format("'{}': symmetry and blocks are those of the other weights there",
                                weight.value));
  }
  if (its->bits == base.bits) return {};
  return {{"match", {{"name", layer.node}}}, {"type", fmt::format("int{}", its->bits)}};
}

}  // namespace

bool IsGenai(const json& file) { return ConfigIn(file) != nullptr; }

Decisions FromGenai(const json& file) {
  Decisions decisions{.names_all = false};
  ObjectReader reader(*ConfigIn(file), "quantization");
  ReadWeights(reader.Has("weights") ? reader.Object("weights") : json::object(), decisions);
  if (reader.Has("moe")) ReadExperts(reader.Object("moe"), decisions);
  for (const char* key : {"io_dtype", "checkpoint_policy"}) {
    if (reader.Has(key)) decisions.notes.push_back(fmt::format("'{}' is left out", key));
  }
  for (const char* layout : {"format", "runtime"}) {
    if (!reader.Has(layout)) continue;
    for (const auto& [key, value] : reader.Object(layout).items()) {
      if (value == json(false) || value == json(0)) continue;
      decisions.notes.push_back(fmt::format("{}.{} is left out: it is a layout", layout, key));
    }
  }
  reader.Finish();
  return decisions;
}

ordered_json ToGenai(const Decisions& decisions, std::vector<std::string>& notes) {
  const std::vector<LayerDecision> layers = LayersOf(decisions);
  const WeightTreatment base = MostFrequent(layers);
  ordered_json op_types = {"MatMul"};
  ordered_json overrides = ordered_json::array();
  for (const LayerDecision& layer : layers) {
    if (layer.weight == nullptr) continue;
    if (layer.op_type == "MatMul") {
      ordered_json its = OverrideOf(layer, base, notes);
      if (!its.is_null()) overrides.push_back(std::move(its));
    } else if (layer.op_type == "Gather" && TreatmentOf(*layer.weight) == base) {
      op_types = {"MatMul", "Gather"};
    } else {
      notes.push_back(fmt::format("'{}' is left out: {} of a {}", layer.weight->value,
                                  layer.weight->format, layer.op_type));
    }
  }
  for (const Decisions::FloatNode& node : decisions.float_nodes) {
    const bool is_one = std::ranges::find(op_types, ordered_json(node.op_type)) != op_types.end();
    if (is_one && node.has_weight) overrides.push_back(Excluded(node.name));
  }
  const auto is_activation = [](const Decision& decision) { return !decision.is_constant; };
  if (const auto num = std::ranges::count_if(decisions.tensors, is_activation); num > 0) {
    notes.push_back(fmt::format("activations are left out ({}): they are float there", num));
  }
  return {{"weights",
           {{"type", base.bits == 0 ? "none" : fmt::format("int{}", base.bits)},
            {"block_size", base.block_size},
            {"symmetric", base.is_symmetric},
            {"method", "default"},
            {"op_types", op_types},
            {"overrides", overrides}}}};
}

}  // namespace bitpress::interop
