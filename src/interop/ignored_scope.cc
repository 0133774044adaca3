// NNCF's IgnoredScope, as dataclasses write it, and as "ignored_scope" in the configurations of
// tools around OpenVINO. It says which operators stay float, so that its reading is rules.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "interop/files.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using plan::ObjectReader;

constexpr std::array<const char*, 5> kScopeKeys = {"names", "patterns", "types", "subgraphs",
                                                   "validate"};

// NNCF names operators without a name by their type, this, and their place in the model.
constexpr std::string_view kUnnamed = "_nncf_";

// OpenVINO's types of operators that ONNX has under another name. Convolutions are absent: OpenVINO
// has two types for them, by groups.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kOpenVinoTypes{
    {{"Multiply", "Mul"},
     {"Subtract", "Sub"},
     {"Divide", "Div"},
     {"Power", "Pow"},
     {"ReLU", "Relu"},
     {"SoftMax", "Softmax"},
     {"Interpolate", "Resize"},
     {"ConvolutionBackpropData", "ConvTranspose"}}};

// Returns the scope in a file, null if there is none, and the object that holds it.
std::pair<const json*, const json*> ScopeIn(const json& file) {
  if (!file.is_object()) return {};
  const json* holder = &file;
  if (file.contains("quantization_config") && file["quantization_config"].is_object()) {
    holder = &file["quantization_config"];
  }
  if (holder->contains("ignored_scope") && (*holder)["ignored_scope"].is_object()) {
    return {&(*holder)["ignored_scope"], holder};
  }
  const bool has_one =
      std::ranges::any_of(kScopeKeys, [&](const char* key) { return file.contains(key); });
  return {has_one ? &file : nullptr, nullptr};
}

std::vector<std::string> StringsOf(ObjectReader& reader, const char* key) {
  return reader.Has(key) ? reader.Strings(key) : std::vector<std::string>();
}

// Returns ONNX's name of a type of operators.
std::string OnnxType(const std::string& type, std::vector<std::string>& notes) {
  const auto found =
      std::ranges::find(kOpenVinoTypes, type, &decltype(kOpenVinoTypes)::value_type::first);
  if (found == kOpenVinoTypes.end()) return type;
  notes.push_back(fmt::format("types: '{}' is read as ONNX's {}", type, found->second));
  return std::string(found->second);
}

// Returns a pattern that fits a whole name, as those of rules do, for one of NNCF, which fits the
// beginning of a name. Messages show it, so that it stays as it is where it can.
std::string WholePattern(const std::string& pattern) {
  const bool is_escaped = pattern.ends_with("\\.*");
  if (pattern.ends_with(".*") && !is_escaped && pattern.find('|') == std::string::npos)
    return pattern;
  const bool is_choice = pattern.find('|') != std::string::npos;
  return is_choice ? fmt::format("(?:{}).*", pattern) : pattern + ".*";
}

}  // namespace

bool IsIgnoredScope(const json& file) { return ScopeIn(file).first != nullptr; }

Decisions FromIgnoredScope(const json& file) {
  const auto [scope, holder] = ScopeIn(file);
  Decisions decisions{.names_all = false, .tells_unmatched = true};
  ObjectReader reader(*scope, "ignored scope");
  const bool is_optional = reader.Has("validate") && !reader.Bool("validate");
  const auto add = [&](plan::Rule rule) {
    rule.exclude = true;
    rule.is_optional = is_optional;
    decisions.rules.push_back(std::move(rule));
  };
  if (auto names = StringsOf(reader, "names"); !names.empty()) add({.names = std::move(names)});
  std::vector<std::string> patterns = StringsOf(reader, "patterns");
  for (std::string& pattern : patterns) pattern = WholePattern(pattern);
  if (!patterns.empty()) add({.nodes = std::move(patterns)});
  std::vector<std::string> types = StringsOf(reader, "types");
  for (std::string& type : types) type = OnnxType(type, decisions.notes);
  if (!types.empty()) add({.op_types = std::move(types)});
  if (reader.Has("subgraphs")) {
    for (const json& subgraph : reader.Array("subgraphs")) {
      ObjectReader ends(subgraph, "subgraph");
      plan::Rule rule{.from = ends.Strings("inputs"), .to = ends.Strings("outputs")};
      ends.Finish();
      if (rule.from.empty() || rule.to.empty()) {
        Fail(ErrorCode::kInvalidArgument, "subgraph: it needs inputs and outputs");
      }
      add(std::move(rule));
    }
  }
  reader.Finish();
  if (holder == nullptr) return decisions;
  for (const auto& [key, value] : holder->items()) {
    if (key == "ignored_scope" || value.is_null()) continue;
    decisions.notes.push_back(fmt::format("'{}' is left out: only ignored_scope is read", key));
  }
  return decisions;
}

void NameUnnamed(Decisions& decisions, const graph::Model& given) {
  std::map<std::string, std::string> outputs;
  const std::vector<graph::Node> nodes = given.Nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].name().empty() || nodes[i].num_outputs() == 0) continue;
    outputs.emplace(fmt::format("{}{}{}", nodes[i].op_type(), kUnnamed, i), nodes[i].output(0));
  }
  for (plan::Rule& rule : decisions.rules) {
    for (std::vector<std::string>* const words : {&rule.names, &rule.from, &rule.to}) {
      for (std::string& word : *words) {
        if (const auto found = outputs.find(word); found != outputs.end()) word = found->second;
      }
    }
  }
}

ordered_json ToIgnoredScope(const Decisions& decisions, std::vector<std::string>& notes) {
  ordered_json names = ordered_json::array();
  for (const Decisions::FloatNode& node : decisions.float_nodes) names.push_back(node.name);
  if (!decisions.tensors.empty()) {
    notes.push_back(
        fmt::format("formats and scales of {} are left out: an ignored scope "
                    "says which operators stay float, and nothing of the others",
                    WithNoun(decisions.tensors.size(), "tensor")));
  }
  return {{"names", names},
          {"patterns", ordered_json::array()},
          {"types", ordered_json::array()},
          {"subgraphs", ordered_json::array()},
          {"validate", true}};
}

}  // namespace bitpress::interop
