#include "emit/hard_swish_on_codes.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emit/integer_codes.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

// A code is 1/256 of the way from 0 to 1 when it is made, so that 0.5 has one. It is read as 1/255
// of the way, so that the largest one is 1 and no factor is off by more than 0.4 %.
constexpr float kStepsMade = 256;
constexpr float kStepsRead = 255;

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
  const float code = std::round(beta * kStepsMade);
  const bool is_near = std::abs(code - beta * kStepsMade) <= kMostDistance;
  return is_near && code >= 0 && code < kStepsMade ? std::optional(static_cast<int64_t>(code))
                                                   : std::nullopt;
}

// Returns whether the only reader of a HardSigmoid multiplies it with what it reads, these codes,
// and the product becomes codes.
bool IsOfHardSwish(const Model& model, const Node& node, const IntegerCodes& x) {
  const std::optional<Use> use = model.OnlyUse(node.output(0));
  if (!use || !IsStandardOp(use->node, "Mul") || !model.AreInOneGraph(node, use->node)) {
    return false;
  }
  const Node& product = use->node;
  const auto other = ActivationCodes(model, product.input(1 - use->input_index));
  if (!other || other->triple() != x.triple()) return false;
  const std::optional<Use> quantized = model.OnlyUse(product.output(0));
  if (!quantized || quantized->input_index != 0 ||
      !IsStandardOp(quantized->node, "QuantizeLinear")) {
    return false;
  }
  const auto y = CodesOf(model, quantized->node, quantized->node.output(0));
  return y && y->type == x.type && !y->is_per_axis;
}

void Rewrite(Model& model, const Node& node, const IntegerCodes& x, int64_t code_of_beta) {
  const std::string value = node.output(0);
  const float scale = model.Initializer(x.scale).values<float>()[0];
  const auto zero_point = [&](const char* suffix, int64_t code) {
    const int64_t least = x.type == DataType::kInt8 ? -128 : 0;
    return AddScalar(model, value + suffix, x.type, static_cast<uint8_t>(least + code));
  };
  const auto scale_of = [&](const char* suffix, float steps) {
    return AddScalar(model, value + suffix, DataType::kFloat, steps);
  };
  const std::string line_scale = scale_of("_line_scale", node.GetFloat("alpha", 0.2F) * scale);
  const std::array made{scale_of("_made_scale", 1 / kStepsMade),
                        zero_point("_made_zero_point", code_of_beta)};
  const std::array read{scale_of("_read_scale", 1 / kStepsRead), zero_point("_read_zero_point", 0)};
  const std::string line = model.FreshName(value + "_line"),
                    joined = model.FreshName(value + "_line_joined"),
                    codes = model.FreshName(value + "_codes");
  const auto insert = [&](const std::string& name, const char* op_type,
                          std::vector<std::string> inputs, const std::string& output,
                          std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    model.InsertNode({name, op_type, "", std::move(inputs), {output}, std::move(attributes)}, node);
  };
  model.Replace({node}, [&] {
    insert(line, "DequantizeLinear", {x.codes, line_scale, x.zero_point}, line);
    insert(joined, "Concat", {line}, joined, {{"axis", int64_t{0}}});
    insert(codes, "QuantizeLinear", {joined, made[0], made[1]}, codes);
    insert(node.name(), "DequantizeLinear", {codes, read[0], read[1]}, value);
  });
}

}  // namespace

size_t HardSwishOnCodes(Model& model) {
  size_t count = 0;
  for (const Node& node : model.AllNodes()) {
    if (!IsStandardOp(node, "HardSigmoid")) continue;
    const std::optional<IntegerCodes> x = ActivationCodes(model, node.input(0));
    const std::optional<int64_t> beta = CodeOf(node.GetFloat("beta", 0.5F));
    const bool is_line =
        x && beta && node.GetFloat("alpha", 0.2F) > 0 && !model.IsDeferred(x->scale);
    if (!is_line || !IsOfHardSwish(model, node, *x)) continue;
    Rewrite(model, node, *x, *beta);
    ++count;
  }
  return count;
}

}  // namespace bitpress::emit
