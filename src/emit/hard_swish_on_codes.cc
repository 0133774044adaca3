#include "emit/hard_swish_on_codes.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emit/integer_codes.h"
#include "graph/pattern.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::Pattern;
using graph::PatternMatch;
using graph::Use;

// A code is 1/256 of the way from 0 to 1, so that 0.5 has one. The largest of 256 codes is 255/256.
constexpr float kSteps = 256;

template <typename T>
std::string AddScalar(Model& model, const std::string& wanted, DataType type, T value) {
  const std::string name = model.FreshName(wanted);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  model.SetInitializer(name, type, {}, bytes);
  return name;
}

// Returns the code of beta, counted from the least code; nothing if none is near it.
std::optional<int64_t> CodeOf(float beta) {
  constexpr float kMostDistance = 1 / 16.0F;
  const float code = std::round(beta * kSteps);
  const bool is_near = std::abs(code - beta * kSteps) <= kMostDistance;
  return is_near && code >= 0 && code < kSteps ? std::optional(static_cast<int64_t>(code))
                                               : std::nullopt;
}

// x * (alpha * x + beta), cut off at 0 and 1.
struct HardSwish {
  PatternMatch match;
  IntegerCodes x;
  float alpha = 0;
  int64_t code_of_beta = 0;
  std::string factor;  // the name of what x is multiplied with
};

// Returns x * HardSigmoid(x), and the forms that exporters to older operator sets write.
Pattern HardSwishPattern() {
  const Pattern x = Pattern::Any("x"), six = Pattern::Number(6), sixth = Pattern::Number(1 / 6.0F);
  const Pattern cut =
      Pattern::Op("Clip", {Pattern::Op("Add", {x, Pattern::Number(3)}), Pattern::Number(0), six});
  const Pattern product = Pattern::Op("Mul", {x, cut});
  return Pattern::OneOf(
      {Pattern::Op("Mul", {x, Pattern::Op("HardSigmoid", {x}, "gate")}),
       Pattern::Op("Div", {product, six}), Pattern::Op("Mul", {product, sixth}),
       Pattern::Op("Mul", {x, Pattern::OneOf({Pattern::Op("Div", {cut, six}),
                                              Pattern::Op("Mul", {cut, sixth})})})});
}

// Returns whether the only reader of a value makes it codes of a type, with one scale.
bool BecomesCodes(const Model& model, const Node& node, DataType type) {
  const std::optional<Use> quantized = model.OnlyUse(node.output(0));
  if (!quantized || quantized->input_index != 0 || !model.AreInOneGraph(node, quantized->node) ||
      !IsStandardOp(quantized->node, "QuantizeLinear")) {
    return false;
  }
  const auto y = CodesOf(model, quantized->node, quantized->node.output(0));
  return y && y->type == type && !y->is_per_axis;
}

// Returns what the node is the last one of; nothing if that is no HardSwish between codes.
std::optional<HardSwish> HardSwishAt(const Model& model, const Node& node, const Pattern& pattern) {
  std::optional<PatternMatch> match = pattern.MatchAt(model, node);
  if (!match) return std::nullopt;
  const std::optional<IntegerCodes> x = ActivationCodes(model, match->values.at("x"));
  if (!x || model.IsDeferred(x->scale) || !BecomesCodes(model, node, x->type)) return std::nullopt;
  HardSwish found{std::move(*match), *x, 1 / 6.0F, 0, ""};
  float beta = 0.5F;
  if (const auto gate = found.match.values.find("gate"); gate != found.match.values.end()) {
    const Node sigmoid = *model.Producer(gate->second);
    found.alpha = sigmoid.GetFloat("alpha", 0.2F);
    beta = sigmoid.GetFloat("beta", 0.5F);
    found.factor = gate->second;
  } else {
    found.factor = model.FreshName(node.output(0) + "_factor");
  }
  const std::optional<int64_t> code = CodeOf(beta);
  if (!code || !(found.alpha > 0)) return std::nullopt;
  found.code_of_beta = *code;
  return found;
}

void Rewrite(Model& model, const HardSwish& swish) {
  const IntegerCodes& x = swish.x;
  const std::string& factor = swish.factor;
  const float scale = model.Initializer(x.scale).values<float>()[0];
  const auto zero_point = [&](const char* suffix, int64_t code) {
    const int64_t least = x.type == DataType::kInt8 ? -128 : 0;
    return AddScalar(model, factor + suffix, x.type, static_cast<uint8_t>(least + code));
  };
  const auto scale_of = [&](const char* suffix, float value) {
    return AddScalar(model, factor + suffix, DataType::kFloat, value);
  };
  const std::string line_scale = scale_of("_line_scale", swish.alpha * scale);
  const std::string step = scale_of("_scale", 1 / kSteps);
  const std::string made = zero_point("_line_zero_point", swish.code_of_beta);
  const std::string read = zero_point("_zero_point", 0);
  const std::string line = model.FreshName(factor + "_line"),
                    joined = model.FreshName(factor + "_line_joined"),
                    codes = model.FreshName(factor + "_codes");
  const Node& last = swish.match.nodes.back();
  const auto insert = [&](const std::string& name, const char* op_type,
                          std::vector<std::string> inputs, const std::string& output,
                          std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    model.InsertNode({name, op_type, "", std::move(inputs), {output}, std::move(attributes)}, last);
  };
  model.Replace(swish.match.nodes, [&] {
    insert(line, "DequantizeLinear", {x.codes, line_scale, x.zero_point}, line);
    insert(joined, "Concat", {line}, joined, {{"axis", int64_t{0}}});
    insert(codes, "QuantizeLinear", {joined, step, made}, codes);
    insert(factor, "DequantizeLinear", {codes, step, read}, factor);
    insert(last.name(), "Mul", {swish.match.values.at("x"), factor}, last.output(0));
  });
}

}  // namespace

size_t HardSwishOnCodes(Model& model) {
  const Pattern pattern = HardSwishPattern();
  std::vector<HardSwish> found;
  for (const Node& node : model.AllNodes()) {
    if (std::optional<HardSwish> swish = HardSwishAt(model, node, pattern)) {
      found.push_back(std::move(*swish));
    }
  }
  for (const HardSwish& swish : found) Rewrite(model, swish);
  return found.size();
}

}  // namespace bitpress::emit
