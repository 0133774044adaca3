#include "plan/quantizer_nodes.h"

#include <algorithm>

namespace bitpress::plan {
namespace {

struct QuantizerOp {
  std::string_view domain;
  std::string_view op_type;
};

constexpr QuantizerOp kQuantizers[] = {
    {"com.amd.quark", "MXQuantizeDequantize"},
    {"com.amd.quark", "BFPQuantizeDequantize"},
    {"com.amd.quark", "ExtendedQuantizeLinear"},
    {"com.amd.quark", "ExtendedDequantizeLinear"},
    {"com.vai.quantize", "MXFixNeuron"},
    {"com.vai.quantize", "BFPFixNeuron"},
    {"com.vai.quantize", "VitisQuantizeLinear"},
    {"com.vai.quantize", "VitisDequantizeLinear"},
    {"", "QuantizeLinear"},
    {"", "DequantizeLinear"},
    {"", "DynamicQuantizeLinear"},
    {"com.microsoft", "QuantizeLinear"},
    {"com.microsoft", "DequantizeLinear"},
};

// Whether the value is that of a packed weight; for FLOAT16 a Cast stands between.
bool IsUnpacked(const graph::Model& model, std::string_view value) {
  std::optional<graph::Node> producer = model.Producer(value);
  if (producer && producer->op_type() == "Cast" && producer->domain().empty() &&
      producer->num_inputs() == 1) {
    producer = model.Producer(producer->input(0));
  }
  return producer && IsUnpack(*producer);
}

}  // namespace

bool IsUnpack(const graph::Node& node) {
  return node.domain() == "bitpress" && node.op_type().starts_with("Unpack_");
}

bool IsQuantizer(const graph::Node& node) {
  if (node.domain() == "bitpress") return node.op_type().starts_with("QuantizeDequantize");
  return std::any_of(std::begin(kQuantizers), std::end(kQuantizers), [&](const QuantizerOp& op) {
    return op.domain == node.domain() && op.op_type == node.op_type();
  });
}

bool HasQuantizedWeights(const graph::Model& model) {
  return model.Metadata().contains(kWeightsMetadata);
}

std::optional<std::string> QuantizedFrom(const graph::Model& model, std::string_view value) {
  if (IsUnpacked(model, value)) return "";
  const std::optional<graph::Node> last = model.Producer(value);
  if (!last || !IsQuantizer(*last) || last->num_inputs() == 0) return std::nullopt;
  const bool is_pair = last->op_type().ends_with("DequantizeLinear");
  if (!is_pair) return last->input(0);
  const std::optional<graph::Node> first = model.Producer(last->input(0));
  if (!first || !IsQuantizer(*first) || first->num_inputs() == 0) return "";
  return first->input(0);
}

bool ReadsQuantized(const graph::Model& model, const graph::Node& node, size_t input_index,
                    std::string_view value) {
  const std::string& read = node.input(input_index);
  if (QuantizedFrom(model, read) == value) return true;
  // The copy of a weight: FreshName may have added a number.
  const bool is_stored_as_codes = QuantizedFrom(model, read) == "";
  if (read == value) return is_stored_as_codes;
  const std::string copy = std::string(value) + "_quantized";
  const bool is_constant = model.IsInitializer(read) || is_stored_as_codes;
  if (!read.starts_with(copy) || !is_constant) return false;
  const std::string_view rest = std::string_view(read).substr(copy.size());
  return rest.empty() ||
         (rest.front() == '_' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

}  // namespace bitpress::plan
