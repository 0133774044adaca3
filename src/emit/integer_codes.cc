#include "emit/integer_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "formats/reference.h"
#include "ops/following_limits.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;

// Returns the values of a float constant. Returns none if it has another type or is computed while
// the model is written.
std::span<const float> FloatsOf(const Model& model, const std::string& name) {
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return {};
  const graph::InitializerView constant = model.Initializer(name);
  if (constant.type != DataType::kFloat) return {};
  return constant.values<float>();
}

// Returns the value of a scalar constant, NaN if it is not known.
float FloatOf(const Model& model, const std::string& name) {
  const std::span<const float> values = FloatsOf(model, name);
  return values.size() == 1 ? values[0] : std::numeric_limits<float>::quiet_NaN();
}

std::optional<int64_t> ZeroPointOf(const Model& model, const IntegerCodes& codes) {
  if (model.IsDeferred(codes.zero_point)) return std::nullopt;
  const auto bytes = model.Initializer(codes.zero_point).bytes;
  if (bytes.size() != 1) return std::nullopt;
  const auto byte = std::to_integer<uint8_t>(bytes[0]);
  return codes.type == DataType::kInt8 ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte};
}

std::vector<int64_t> DimsOf(const Model& model, const std::string& name) {
  std::vector<int64_t> dims;
  for (const graph::Dimension& dim : model.InfoOf(name).shape) dims.push_back(dim.value);
  return dims;
}

// Returns whether the scales of a bias are those of the products that it is added to.
bool HasScaleOfProducts(const Model& model, const IntegerCodes& bias, const IntegerCodes& data,
                        const IntegerCodes& weight) {
  // A deferred scale is one that QuantizeWeights computes while the model is written. It gives
  // biases the scales of their products.
  if (model.IsDeferred(bias.scale)) return true;
  const std::span<const float> scales = FloatsOf(model, bias.scale);
  const std::span<const float> of_weight = FloatsOf(model, weight.scale);
  const float of_data = FloatOf(model, data.scale);
  if (scales.empty() || (of_weight.size() != 1 && of_weight.size() != scales.size())) return false;
  const auto zero_points = model.Initializer(bias.zero_point).bytes;
  if (std::ranges::any_of(zero_points, [](std::byte byte) { return byte != std::byte{0}; })) {
    return false;
  }
  constexpr float kTolerance = 1e-5F;
  for (size_t i = 0; i < scales.size(); ++i) {
    const float product = of_data * of_weight[of_weight.size() == 1 ? 0 : i];
    if (!(std::abs(scales[i] - product) <= kTolerance * product)) return false;
  }
  return true;
}

}  // namespace

bool IsStandardOp(const Node& node, std::string_view op_type) {
  return node.domain().empty() && node.op_type() == op_type;
}

std::optional<IntegerCodes> CodesOf(const Model& model, const std::string& value) {
  const std::optional<Node> dequantize = model.Producer(value);
  if (!dequantize || !IsStandardOp(*dequantize, "DequantizeLinear") ||
      dequantize->num_inputs() == 0) {
    return std::nullopt;
  }
  return CodesOf(model, *dequantize, dequantize->input(0));
}

std::optional<IntegerCodes> CodesOf(const Model& model, const Node& quantizer,
                                    const std::string& codes) {
  if (quantizer.num_inputs() != 3 || quantizer.GetInt("block_size", 0) != 0) return std::nullopt;
  IntegerCodes found{codes, quantizer.input(1), quantizer.input(2), DataType::kUndefined, false, 0};
  if (!model.IsInitializer(found.scale) || !model.IsInitializer(found.zero_point)) {
    return std::nullopt;
  }
  const std::vector<int64_t> dims = DimsOf(model, found.scale);
  const bool is_plain = model.InfoOf(found.scale).type == DataType::kFloat && dims.size() <= 1 &&
                        dims == DimsOf(model, found.zero_point);
  if (!is_plain) return std::nullopt;
  found.type = model.InfoOf(found.zero_point).type;
  found.is_per_axis = !dims.empty();
  found.axis = quantizer.GetInt("axis", 1);
  return found;
}

std::optional<IntegerCodes> ActivationCodes(const Model& model, const std::string& value) {
  std::optional<IntegerCodes> codes = CodesOf(model, value);
  return codes && codes->is_byte() && !codes->is_per_axis ? codes : std::nullopt;
}

std::optional<IntegerCodes> WeightCodes(const Model& model, const std::string& value,
                                        int64_t channel_axis) {
  std::optional<IntegerCodes> codes = CodesOf(model, value);
  if (!codes || !codes->is_byte()) return std::nullopt;
  if (codes->is_per_axis && codes->axis != channel_axis) return std::nullopt;
  return codes;
}

std::optional<std::string> BiasCodes(const Model& model, const Node& node, const IntegerCodes& data,
                                     const IntegerCodes& weight) {
  if (node.num_inputs() < 3 || node.input(2).empty()) return "";
  const std::optional<IntegerCodes> bias = CodesOf(model, node.input(2));
  const bool fits =
      bias && bias->type == DataType::kInt32 && HasScaleOfProducts(model, *bias, data, weight);
  return fits ? std::optional(bias->codes) : std::nullopt;
}

bool HasSameMeaning(const Model& model, const IntegerCodes& x, const IntegerCodes& y) {
  const std::optional<int64_t> zero_point = ZeroPointOf(model, x);
  return x.type == y.type && zero_point && zero_point == ZeroPointOf(model, y) &&
         FloatOf(model, x.scale) == FloatOf(model, y.scale);
}

bool IsSaturation(const Model& model, const Node& node, const IntegerCodes& codes) {
  const std::optional<ops::Limits> limits = ops::LimitsOf(model, node);
  const float scale = FloatOf(model, codes.scale);
  const std::optional<int64_t> zero_point = ZeroPointOf(model, codes);
  if (!limits || !(scale > 0) || !std::isfinite(scale) || !zero_point) return false;
  const formats::CodeRange range = formats::IntegerRange(
      codes.type == DataType::kInt8 ? formats::ElementType::kInt8 : formats::ElementType::kUInt8);
  return formats::ref::QuantizeInteger(limits->least, scale, *zero_point, range) ==
             range.quant_min &&
         formats::ref::QuantizeInteger(limits->largest, scale, *zero_point, range) ==
             range.quant_max;
}

}  // namespace bitpress::emit
