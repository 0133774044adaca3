// Pass fuse, on request: writes the nodes that compute a GELU or a layer normalization as the one
// operator that ONNX has for it. Exporters to older operator sets write them apart. As one
// operator, nothing is rounded in the middle of it where all values are quantized, fine-tuning
// learns behind a GELU, and FP16 keeps FLOAT inside. The model is brought to the operator set of
// these operators, as far as it can be raised. It computes the same but for float rounding.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/pattern.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;
using graph::NodeSpec;
using graph::Pattern;
using graph::PatternMatch;

constexpr float kSqrt2 = std::numbers::sqrt2_v<float>;

// Returns x / 2 * (1 + gate), in the orders in which exporters write it.
Pattern GatedHalf(const Pattern& x, const Pattern& gate) {
  const Pattern half = Pattern::Number(0.5F);
  const Pattern sum = Pattern::Op("Add", {gate, Pattern::Number(1)});
  return Pattern::OneOf({Pattern::Op("Mul", {Pattern::Op("Mul", {x, sum}), half}),
                         Pattern::Op("Mul", {Pattern::Op("Mul", {x, half}), sum}),
                         Pattern::Op("Mul", {x, Pattern::Op("Mul", {sum, half})})});
}

Pattern ExactGelu() {
  const Pattern x = Pattern::Any("x");
  return GatedHalf(
      x,
      Pattern::Op("Erf", {Pattern::OneOf({Pattern::Op("Div", {x, Pattern::Number(kSqrt2)}),
                                          Pattern::Op("Mul", {x, Pattern::Number(1 / kSqrt2)})})}));
}

Pattern TanhGelu() {
  const Pattern x = Pattern::Any("x");
  const Pattern cube = Pattern::OneOf({Pattern::Op("Pow", {x, Pattern::Number(3)}),
                                       Pattern::Op("Mul", {Pattern::Op("Mul", {x, x}), x})});
  const Pattern sum =
      Pattern::Op("Add", {x, Pattern::Op("Mul", {cube, Pattern::Number(0.044715F)})});
  const float factor = std::sqrt(2 * std::numbers::inv_pi_v<float>);
  return GatedHalf(x, Pattern::Op("Tanh", {Pattern::Op("Mul", {sum, Pattern::Number(factor)})}));
}

Pattern LayerNorm() {
  const Pattern x = Pattern::Any("x");
  const Pattern centred =
      Pattern::Op("Sub", {x, Pattern::Op("ReduceMean", {x}, "mean")}, "centred");
  const Pattern square = Pattern::OneOf(
      {Pattern::Op("Pow", {centred, Pattern::Number(2)}), Pattern::Op("Mul", {centred, centred})});
  const Pattern variance = Pattern::Op("ReduceMean", {square}, "variance");
  const Pattern deviation =
      Pattern::Op("Sqrt", {Pattern::Op("Add", {variance, Pattern::Constant("epsilon")})});
  const Pattern normalized =
      Pattern::OneOf({Pattern::Op("Div", {centred, deviation}),
                      Pattern::Op("Mul", {centred, Pattern::Op("Reciprocal", {deviation})})});
  return Pattern::Op("Add", {Pattern::Op("Mul", {normalized, Pattern::Constant("scale")}),
                             Pattern::Constant("shift")});
}

// Returns whether a ReduceMean takes the mean over the last axis and keeps it.
bool IsOverLastAxis(const Model& model, const Node& mean) {
  std::vector<int64_t> axes = mean.GetInts("axes");
  if (mean.num_inputs() > 1 && model.IsInitializer(mean.input(1))) {
    const auto numbers = model.Initializer(mean.input(1)).values<int64_t>();
    axes.assign(numbers.begin(), numbers.end());
  }
  const graph::ValueInfo info = model.InfoOf(mean.input(0));
  const auto last = info.has_shape ? std::ssize(info.shape) - 1 : -1;
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == last) && mean.GetInt("keepdims", 1) == 1;
}

// Returns why a layer normalization stays as it is, or "".
std::string WhyNoLayerNorm(const Model& model, const PatternMatch& match) {
  for (const char* const mean : {"mean", "variance"}) {
    if (!IsOverLastAxis(model, *model.Producer(match.values.at(mean)))) {
      return "it normalizes over other axes than the last";
    }
  }
  const graph::ValueInfo epsilon = model.InfoOf(match.values.at("epsilon"));
  const bool is_number =
      model.Initializer(match.values.at("epsilon")).bytes.size() == sizeof(float);
  if (epsilon.type != DataType::kFloat || !is_number) return "its epsilon is no FLOAT number";
  const graph::ValueInfo x = model.InfoOf(match.values.at("x"));
  for (const char* const vector : {"scale", "shift"}) {
    const graph::ValueInfo info = model.InfoOf(match.values.at(vector));
    const bool fits = info.type == DataType::kFloat && info.shape.size() == 1 && x.has_shape &&
                      !x.shape.empty() && info.shape[0].value == x.shape.back().value;
    if (!fits) return fmt::format("its {} is no FLOAT vector of the last axis", vector);
  }
  return "";
}

struct Rule {
  std::string_view word;  // of the setting
  std::string_view op_type;
  int64_t first_opset;
  Pattern pattern;
  std::vector<std::string> inputs;  // of the operator, by their labels
  std::vector<std::pair<std::string, graph::Attribute>> attributes = {};
  std::string (*why_not)(const Model&, const PatternMatch&) = nullptr;
};

std::vector<Rule> RulesFor(std::string_view word) {
  std::vector<Rule> rules{
      {"layer_norm",
       "LayerNormalization",
       17,
       LayerNorm(),
       {"x", "scale", "shift"},
       {},
       WhyNoLayerNorm},
      {"gelu", "Gelu", 20, ExactGelu(), {"x"}},
      {"gelu", "Gelu", 20, TanhGelu(), {"x"}, {{"approximate", std::string("tanh")}}}};
  std::erase_if(rules, [&](const Rule& rule) { return word != "all" && rule.word != word; });
  return rules;
}

// The matches of a rule that can be replaced, and the others with the reason.
struct Found {
  std::vector<PatternMatch> matches;
  std::vector<std::pair<std::string, std::string>> left_alone;
};

Found Find(const Model& model, const Rule& rule) {
  Found found;
  for (const Node& node : model.AllNodes()) {
    std::optional<PatternMatch> match = rule.pattern.MatchAt(model, node);
    if (!match) continue;
    const std::string why = rule.why_not == nullptr ? "" : rule.why_not(model, *match);
    if (why.empty()) {
      found.matches.push_back(std::move(*match));
    } else {
      found.left_alone.emplace_back(node.Describe(), why);
    }
  }
  return found;
}

void Fuse(Model& model, const Rule& rule, const PatternMatch& match) {
  const Node& last = match.nodes.back();
  NodeSpec spec{last.name(), std::string(rule.op_type), "", {}, {last.output(0)}, rule.attributes};
  for (const std::string& label : rule.inputs) spec.inputs.push_back(match.values.at(label));
  if (const auto epsilon = match.values.find("epsilon"); epsilon != match.values.end()) {
    spec.attributes.emplace_back("epsilon", model.Initializer(epsilon->second).values<float>()[0]);
  }
  model.Replace(match.nodes, [&] { model.InsertNode(spec, last); });
}

graph::PassResult FuseAll(Model& model, std::string_view word) {
  graph::PassResult result = false;
  result.label = "fused";
  std::map<std::string_view, int64_t> counts;  // by operator
  for (const Rule& rule : RulesFor(word)) {
    Found found = Find(model, rule);
    std::string why_not;
    if (!found.matches.empty()) {
      // Raising makes the nodes of the matches invalid.
      why_not = model.RaiseOpset(rule.first_opset);
      found = Find(model, rule);
    }
    for (const PatternMatch& match : found.matches) {
      if (why_not.empty()) {
        Fuse(model, rule, match);
      } else {
        result.left_alone.emplace_back(match.nodes.back().Describe(), why_not);
      }
    }
    std::ranges::move(found.left_alone, std::back_inserter(result.left_alone));
    if (why_not.empty()) counts[rule.op_type] += std::ssize(found.matches);
  }
  std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
  std::vector<std::string> texts;
  for (const auto& [op_type, count] : counts) {
    texts.push_back(fmt::format("{} {}", count, op_type));
    result.counts.emplace_back(op_type, count);
  }
  result.is_modified = !counts.empty();
  result.text = texts.empty() ? "nothing" : Join(texts, ", ");
  if (result.is_modified) model.InferShapes();
  return result;
}

}  // namespace

const PreparePass kFuse{
    .name = "fuse",
    .run = [](Model& model,
              PrepareState& state) { return FuseAll(model, SettingOf(state, kFuse)); },
    .is_wanted = [](const Model&,
                    const PrepareState& state) { return !SettingOf(state, kFuse).empty(); },
    .setting = "all|gelu|layer_norm"};

}  // namespace bitpress::rewrite
