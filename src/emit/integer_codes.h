// Integer codes of values in a QDQ model. Use it to see what stands before a DequantizeLinear or
// behind a QuantizeLinear, and what its scales mean. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"

namespace bitpress::emit {

struct IntegerCodes {
  std::string codes;
  std::string scale;  // a constant, like the zero point
  std::string zero_point;
  DataType type = DataType::kUndefined;
  bool is_per_axis = false;
  int64_t axis = 0;  // if is_per_axis

  bool is_byte() const { return type == DataType::kUInt8 || type == DataType::kInt8; }
  std::vector<std::string> triple() const { return {codes, scale, zero_point}; }
};

// Returns whether `node` is the operator `op_type` of ONNX itself.
bool IsStandardOp(const graph::Node& node, std::string_view op_type);

// Returns the codes that a DequantizeLinear turns into `value`. Returns nothing if `value` has
// another producer. Returns nothing either if its scales and zero points lie in blocks or are not
// constants of one shape.
std::optional<IntegerCodes> CodesOf(const graph::Model& model, const std::string& value);
// Returns the same for a QuantizeLinear or DequantizeLinear whose codes are named `codes`.
std::optional<IntegerCodes> CodesOf(const graph::Model& model, const graph::Node& quantizer,
                                    const std::string& codes);
// Returns the codes of an activation as CodesOf does, if they have 8 bits and one scale.
std::optional<IntegerCodes> ActivationCodes(const graph::Model& model, const std::string& value);
// Returns the codes of a weight as CodesOf does, if they have 8 bits, and one scale or one for each
// index of `channel_axis`.
std::optional<IntegerCodes> WeightCodes(const graph::Model& model, const std::string& value,
                                        int64_t channel_axis);
// Returns the codes of the bias (the third input) of a product of `data` and `weight`. They are
// int32 with the scale of the product and zero point 0. Returns "" if there is no bias, and nothing
// if the bias is any other value.
std::optional<std::string> BiasCodes(const graph::Model& model, const graph::Node& node,
                                     const IntegerCodes& data, const IntegerCodes& weight);

// Returns whether equal codes mean equal values. REQUIRES: neither is per axis.
bool HasSameMeaning(const graph::Model& model, const IntegerCodes& x, const IntegerCodes& y);
// Returns whether a Relu or Clip changes none of the `codes` that a QuantizeLinear makes of its
// result. That holds if its limits have the outermost codes, because quantizing keeps the order.
// REQUIRES: 8 bits, not per axis.
bool IsSaturation(const graph::Model& model, const graph::Node& node, const IntegerCodes& codes);

}  // namespace bitpress::emit
