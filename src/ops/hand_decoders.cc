#include "ops/hand_decoders.h"

#include <algorithm>

#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

using graph::Model;
using graph::Node;

bool IsFloatConstant(const Model& model, const std::string& value) {
  return model.IsInitializer(value) && !model.IsDeferred(value) &&
         IsFloat(model.InfoOf(value).type);
}

bool IsOfCodes(DataType type) {
  constexpr DataType kTypes[] = {DataType::kInt8, DataType::kUInt8, DataType::kInt4,
                                 DataType::kUInt4};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

}  // namespace

std::optional<HandDecoder> HandDecoderAt(const Model& model, const Node& cast) {
  if (cast.op_type() != "Cast" || !cast.domain().empty()) return std::nullopt;
  const std::string& codes = cast.input(0);
  if (!model.IsInitializer(codes) || !IsOfCodes(model.InfoOf(codes).type)) return std::nullopt;
  std::string value = cast.output(0), scales, zero_points;
  std::optional<graph::Use> use = model.OnlyUse(value);
  for (; use; use = model.OnlyUse(value)) {
    const Node& node = use->node;
    const bool is_sub = node.op_type() == "Sub" && use->input_index == 0;
    if ((!is_sub && node.op_type() != "Mul") || !scales.empty()) break;
    const std::string& other = node.input(1 - use->input_index);
    if (!IsFloatConstant(model, other) || (is_sub && !zero_points.empty())) return std::nullopt;
    (is_sub ? zero_points : scales) = other;
    value = node.output(0);
  }
  if (scales.empty()) return std::nullopt;
  for (const graph::Use& reader : model.AllUses(value)) {
    if (TraitsOf(reader.node).product != Product::kNone && reader.input_index == 1) {
      return HandDecoder{codes, scales, zero_points, value, reader};
    }
  }
  return std::nullopt;
}

}  // namespace bitpress::ops
