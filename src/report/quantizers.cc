#include "report/quantizers.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "formats/parameters.h"
#include "formats/quark.h"
#include "ops/quantizer_nodes.h"
#include "report/constants.h"

namespace bitpress::report {
namespace {

using graph::Model;
using graph::Node;

constexpr std::string_view kOwnPrefix = "QuantizeDequantize_";

// Returns the name of our format with the same numbers. Rounding and special cases may differ.
std::string OwnName(const formats::FormatSpec& spec) {
  for (const formats::FormatSpec& row : formats::AllFormats()) {
    const bool is_same =
        row.element_type == spec.element_type && row.scale_type == spec.scale_type &&
        row.element_bits == spec.element_bits && row.block_size == spec.block_size &&
        row.sub_block_size == spec.sub_block_size &&
        row.sub_block_shift_bits == spec.sub_block_shift_bits;
    if (is_same) return row.name;
  }
  return spec.name;
}

// Returns the format of one of AMD Quark's operators from its attributes and their defaults.
std::string QuarkFormat(const Node& node) {
  const int64_t rounding = node.GetInt("rounding_mode", 0);
  try {
    if (node.op_type().starts_with("MX")) {
      formats::QuarkMxAttributes attributes;
      const std::string type = node.GetString("element_dtype", "int8");
      attributes.element_dtype = type;
      attributes.block_size = node.GetInt("block_size", attributes.block_size);
      attributes.rounding_mode = rounding;
      return OwnName(formats::QuarkSpec(attributes));
    }
    formats::QuarkBfpAttributes attributes;
    const std::string method = node.GetString("bfp_method", "to_bfp");
    attributes.bfp_method = method;
    attributes.bit_width = node.GetInt("bit_width", attributes.bit_width);
    attributes.block_size = node.GetInt("block_size", attributes.block_size);
    attributes.sub_block_size = node.GetInt("sub_block_size", attributes.sub_block_size);
    attributes.sub_block_shift_bits =
        node.GetInt("sub_block_shift_bits", attributes.sub_block_shift_bits);
    attributes.rounding_mode = rounding;
    return OwnName(formats::QuarkSpec(attributes));
  } catch (const Error&) {
    return node.op_type();  // the operator would refuse the attributes
  }
}

std::string InputOrNone(const Node& node, size_t i) {
  return i < node.num_inputs() ? node.input(i) : "";
}

// The activation whose rows are moved and scaled before this quantizer, as
// emit/quantize_dynamically.h writes it; nothing for other quantizers.
std::optional<std::string> RowsOf(const Model& model, const Node& quantizer) {
  const std::optional<Node> scaled = model.Producer(quantizer.input(0));
  if (!scaled || scaled->op_type() != "Div") return std::nullopt;
  const std::optional<Node> moved = model.Producer(scaled->input(0));
  if (!moved || moved->op_type() != "Sub") return std::nullopt;
  const std::optional<Node> low = model.Producer(moved->input(1));
  const bool is_row = low && low->op_type() == "ReduceMin" && low->input(0) == moved->input(0);
  return is_row ? std::optional(moved->input(0)) : std::nullopt;
}

ActivationFormat FormatOfNode(const Model& model, const Node& node) {
  const std::string& op = node.op_type();
  if (node.domain() == "bitpress" && op.starts_with(kOwnPrefix)) {
    const std::string base = op.substr(kOwnPrefix.size());
    if (formats::ParametersOf(base).empty()) return {base, {}};
    const auto value = [&](const formats::FormatParameter& parameter) {
      return node.GetInt(std::string(parameter.attribute), parameter.fallback);
    };
    try {
      return {formats::MakeFormat(base, value).name, {}};
    } catch (const Error&) {
      return {base, {}};  // attributes that mean no format
    }
  }
  if (op == "DynamicQuantizeLinear") return {"uint8, dynamic", {}};
  if (op == "QuantizeLinear" && RowsOf(model, node)) return {"uint8, dynamic rows", {}};
  if (op.ends_with("QuantizeLinear")) {
    return IntegerFormat(model, InputOrNone(node, 1), InputOrNone(node, 2));
  }
  if (op.starts_with("MX") || op.starts_with("BFP")) return {QuarkFormat(node), {}};
  if (op == "Cast") {
    return {ToLower(DataTypeName(static_cast<DataType>(node.GetInt("to", 0)))), {}};
  }
  return {op, {}};
}

// Returns the node that rounds the numbers of `value`. Behind it may stand the other half of a
// pair, and a product with the scale.
std::optional<Node> RoundingNode(const Model& model, std::string_view value) {
  const auto source = ops::QuantizedFrom(model, value);
  if (!source || source->empty()) return std::nullopt;
  std::optional<Node> node = model.Producer(value);
  if (node && node->op_type() == "Mul" && node->domain().empty()) {
    node = model.Producer(node->input(0));
  }
  const bool is_second_half = node && (node->op_type().ends_with("DequantizeLinear") ||
                                       (node->op_type() == "Cast" && node->domain().empty()));
  return is_second_half ? model.Producer(node->input(0)) : node;
}

}  // namespace

ActivationFormat IntegerFormat(const Model& model, const std::string& scale,
                               const std::string& zero_point) {
  DataType type = DataType::kUInt8;  // ONNX's default without a zero point
  double zero = 0;
  if (model.IsInitializer(zero_point)) {
    type = model.InfoOf(zero_point).type;
    if (const auto values = ReadIntegers(model, zero_point); values && values->size() == 1) {
      zero = values->front();
    }
  }
  ActivationFormat format{ToLower(DataTypeName(type)), {}};
  const auto scales = ReadFloats(model, scale);
  const std::string& name = format.format;
  const bool is_signed = name.starts_with("int");
  if (!scales || scales->values.size() != 1 || !(is_signed || name.starts_with("uint"))) {
    return format;
  }
  const double codes = std::exp2(static_cast<double>(ElementBits(type)));
  const double lowest = is_signed ? -codes / 2 : 0;
  const double unit = scales->values.front();
  format.range = {(lowest - zero) * unit, (lowest + codes - 1 - zero) * unit};
  return format;
}

std::optional<ActivationFormat> FormatOf(const Model& model, std::string_view value) {
  const std::optional<Node> node = RoundingNode(model, value);
  if (!node) return std::nullopt;
  return FormatOfNode(model, *node);
}

std::map<std::string, ActivationFormat> QuantizedActivations(const Model& model) {
  std::map<std::string, ActivationFormat> formats;
  for (const Node& node : model.AllNodes()) {
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const std::string& value = node.output(i);
      if (value.empty()) continue;
      const auto source = ops::QuantizedFrom(model, value);
      if (!source || source->empty() || model.IsInitializer(*source)) continue;
      const std::optional<ActivationFormat> format = FormatOf(model, value);
      if (!format) continue;
      // A quantized graph output keeps its name, and the value before the quantizer got another.
      const std::string& name = model.IsOutput(value) ? value : *source;
      formats.try_emplace(name, *format);
    }
  }
  return formats;
}

}  // namespace bitpress::report
