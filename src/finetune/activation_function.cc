#include "finetune/activation_function.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/following_limits.h"

namespace bitpress::finetune {
namespace {

using graph::Model;
using graph::Node;
using Kind = ActivationFunction::Kind;

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

std::optional<ActivationFunction> FromNode(const Model& model, const Node& node) {
  if (!node.domain().empty()) return std::nullopt;
  const std::string& op = node.op_type();
  if (const std::optional<ops::Limits> limits = ops::LimitsOf(model, node)) {
    return ActivationFunction{Kind::kClip, limits->least, limits->largest};
  }
  if (op == "LeakyRelu")
    return ActivationFunction{Kind::kLeakyRelu, node.GetFloat("alpha", 0.01F), 0};
  if (op == "HardSigmoid") {
    return ActivationFunction{Kind::kHardSigmoid, node.GetFloat("alpha", 0.2F),
                              node.GetFloat("beta", 0.5F)};
  }
  if (op == "HardSwish") return ActivationFunction{Kind::kHardSwish, 1.0F / 6, 0.5F};
  if (op == "Sigmoid") return ActivationFunction{Kind::kSigmoid, 0, 0};
  if (op == "Tanh") return ActivationFunction{Kind::kTanh, 0, 0};
  if (op == "Gelu") return ActivationFunction{Kind::kGelu, 0, 0};
  return std::nullopt;
}

// Returns the function x * f(x) if `gate` is a sigmoid f and `product` multiplies x by it.
std::optional<ActivationFunction> FromGate(const Model& model, const Node& gate,
                                           const Node& product) {
  if (product.op_type() != "Mul" || !product.domain().empty()) return std::nullopt;
  const std::string& gated = gate.output(0);
  if (product.input(0) != gated && product.input(1) != gated) return std::nullopt;
  const std::optional<ActivationFunction> sigmoid = FromNode(model, gate);
  if (!sigmoid) return std::nullopt;
  if (sigmoid->kind == Kind::kSigmoid) return ActivationFunction{Kind::kSilu, 0, 0};
  if (sigmoid->kind == Kind::kHardSigmoid) {
    return ActivationFunction{Kind::kHardSwish, sigmoid->a, sigmoid->b};
  }
  return std::nullopt;
}

}  // namespace

float ActivationFunction::Apply(float x) const {
  switch (kind) {
    case Kind::kClip:
      return std::min(std::max(x, a), b);
    case Kind::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Kind::kHardSigmoid:
      return std::clamp(a * x + b, 0.0F, 1.0F);
    case Kind::kHardSwish:
      return x * std::clamp(a * x + b, 0.0F, 1.0F);
    case Kind::kSigmoid:
      return Sigmoid(x);
    case Kind::kSilu:
      return x * Sigmoid(x);
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kGelu:
      break;
  }
  return 0.5F * x * (1 + std::erf(x / std::numbers::sqrt2_v<float>));
}

float ActivationFunction::Slope(float x) const {
  switch (kind) {
    case Kind::kClip:
      return x > a && x < b ? 1.0F : 0.0F;
    case Kind::kLeakyRelu:
      return x < 0 ? a : 1.0F;
    case Kind::kHardSigmoid:
      return a * x + b > 0 && a * x + b < 1 ? a : 0.0F;
    case Kind::kHardSwish: {
      const float gate = a * x + b;
      return gate <= 0 ? 0.0F : gate >= 1 ? 1.0F : 2 * a * x + b;
    }
    case Kind::kSigmoid: {
      const float y = Sigmoid(x);
      return y * (1 - y);
    }
    case Kind::kSilu: {
      const float y = Sigmoid(x);
      return y + x * y * (1 - y);
    }
    case Kind::kTanh: {
      const float y = std::tanh(x);
      return 1 - y * y;
    }
    case Kind::kGelu:
      break;
  }
  constexpr float kDensity = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  return 0.5F * (1 + std::erf(x / std::numbers::sqrt2_v<float>)) +
         x * kDensity * std::exp(-0.5F * x * x);
}

std::optional<ActivationFunction> FindActivation(const Model& model, const std::string& value) {
  if (model.IsOutput(value) || model.IsUsedInSubgraph(value)) return std::nullopt;
  const std::vector<graph::Use> uses = model.Uses(value);
  if (uses.size() == 1) {
    return uses[0].input_index == 0 ? FromNode(model, uses[0].node) : std::nullopt;
  }
  if (uses.size() != 2) return std::nullopt;
  const std::optional<ActivationFunction> gate = FromGate(model, uses[0].node, uses[1].node);
  return gate ? gate : FromGate(model, uses[1].node, uses[0].node);
}

}  // namespace bitpress::finetune
