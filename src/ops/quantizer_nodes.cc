#include "ops/quantizer_nodes.h"

#include <algorithm>

#include "ops/integer_operators.h"
#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

bool IsOperator(const std::optional<graph::Node>& node, std::string_view op_type) {
  return node && node->domain().empty() && node->op_type() == op_type;
}

// Returns whether the value comes from a packed weight. Behind the Unpack node stand a Mul if the
// weight has a scale, a Cast if it is FLOAT16, and a Transpose if a table is the weight, too.
bool IsUnpacked(const graph::Model& model, std::string_view value) {
  std::optional<graph::Node> producer = model.Producer(value);
  if (IsOperator(producer, "Transpose")) producer = model.Producer(producer->input(0));
  if (IsOperator(producer, "Cast")) producer = model.Producer(producer->input(0));
  if (IsOperator(producer, "Mul") && model.IsInitializer(producer->input(1))) {
    producer = model.Producer(producer->input(0));
  }
  return producer && IsUnpack(*producer);
}

// Returns the float value that goes into Div [-> Clip] -> quantizer -> Mul, or into Cast -> Cast;
// "" behind the Cast of a constant of 16 bits.
std::optional<std::string> QuantizedByStandardOperators(const graph::Model& model,
                                                        const graph::Node& last) {
  std::optional<graph::Node> first = model.Producer(last.input(0));
  if (IsOperator(last, "Cast") && model.IsInitializer(last.input(0))) {
    const DataType type = model.InfoOf(last.input(0)).type;
    const bool is_half = type == DataType::kBFloat16 || type == DataType::kFloat16;
    return is_half ? std::optional<std::string>("") : std::nullopt;
  }
  if (IsOperator(last, "Cast") && IsOperator(first, "Cast")) {
    const auto type = static_cast<DataType>(first->GetInt("to", 0));
    const bool is_narrow = type == DataType::kBFloat16 || type == DataType::kFloat16 ||
                           type == DataType::kFloat8E4M3FN || type == DataType::kFloat8E5M2;
    return is_narrow ? std::optional(first->input(0)) : std::nullopt;
  }
  // Chains of Mul in a model may be long: no recursion through them.
  if (!IsOperator(last, "Mul") || IsOperator(first, "Mul")) return std::nullopt;
  const std::optional<std::string> scaled = QuantizedFrom(model, last.input(0));
  if (!scaled) return std::nullopt;
  first = model.Producer(*scaled);
  if (IsOperator(first, "Clip")) first = model.Producer(first->input(0));  // fp16 saturates
  const bool is_same_scale = IsOperator(first, "Div") && first->input(1) == last.input(1);
  return is_same_scale ? std::optional(first->input(0)) : std::nullopt;
}

}  // namespace

bool ReadsCodes(const graph::Node& node) {
  if (node.domain() != "bitpress") return false;
  constexpr std::string_view kPrefixes[] = {"Unpack_", "MatMul_",  "MatMulClip_",
                                            "Conv_",   "ConvAdd_", "Gather_"};
  return std::ranges::any_of(
      kPrefixes, [&](std::string_view prefix) { return node.op_type().starts_with(prefix); });
}

bool IsUnpack(const graph::Node& node) {
  return node.domain() == "bitpress" && node.op_type().starts_with("Unpack_");
}

bool IsWidener(const graph::Node& node) {
  return node.domain() == "bitpress" && node.op_type().starts_with(kWidenPrefix);
}

std::optional<graph::Node> WidenerOf(const graph::Model& model, std::string_view value) {
  std::optional<graph::Node> producer = model.Producer(value);
  return producer && IsWidener(*producer) ? std::move(producer) : std::nullopt;
}

bool IsQuantizer(const graph::Node& node) {
  if (node.domain() == "bitpress") return node.op_type().starts_with("QuantizeDequantize");
  return TraitsOf(node).Is(kIsQuantizer);
}

bool HasQuantizedWeights(const graph::Model& model) {
  return model.Metadata().contains(kWeightsMetadata);
}

std::map<std::string, size_t> QuantizedOperators(const graph::Model& model) {
  std::map<std::string, size_t> counts;
  for (const graph::Node& node : model.AllNodes()) {
    if (IsQuantizer(node) || ReadsCodes(node) || IsIntegerOperator(node)) ++counts[node.op_type()];
  }
  return counts;
}

std::optional<std::string> QuantizedFrom(const graph::Model& model, std::string_view value) {
  if (IsUnpacked(model, value)) return "";
  std::optional<graph::Node> last = model.Producer(value);
  if (IsOperator(last, "Reshape") || IsOperator(last, "Slice")) {  // see weights/standard_form.h
    for (const char* const op_type : {"Reshape", "Slice"}) {
      if (IsOperator(last, op_type)) last = model.Producer(last->input(0));
    }
    const bool is_weight = IsOperator(last, "DequantizeLinear") && last->num_inputs() > 0 &&
                           model.IsInitializer(last->input(0));
    return is_weight ? std::optional<std::string>("") : std::nullopt;
  }
  if (last && (IsOperator(last, "Mul") || IsOperator(last, "Cast"))) {
    return QuantizedByStandardOperators(model, *last);
  }
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
  // Quantizers may stand in a row.
  for (auto source = QuantizedFrom(model, read); source; source = QuantizedFrom(model, *source)) {
    if (*source == value) return true;
    if (source->empty()) break;
  }
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

}  // namespace bitpress::ops
