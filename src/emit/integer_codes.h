// Values of a model in the QDQ form as the codes that they are made of: what stands before a
// DequantizeLinear or behind a QuantizeLinear, and what its scales mean. Pure.
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
  std::string scale;  // constants, as is the zero point
  std::string zero_point;
  DataType type = DataType::kUndefined;
  bool is_per_axis = false;
  int64_t axis = 0;  // if is_per_axis

  bool is_byte() const { return type == DataType::kUInt8 || type == DataType::kInt8; }
  std::vector<std::string> triple() const { return {codes, scale, zero_point}; }
};

// Whether it is that operator of ONNX itself.
bool IsStandardOp(const graph::Node& node, std::string_view op_type);

// What a DequantizeLinear makes floats of; nothing if the value is from elsewhere, or if its scales
// and zero points are no constants of one shape, or lie in blocks.
std::optional<IntegerCodes> CodesOf(const graph::Model& model, const std::string& value);
// The same of a QuantizeLinear or DequantizeLinear, whose codes are called `codes`.
std::optional<IntegerCodes> CodesOf(const graph::Model& model, const graph::Node& quantizer,
                                    const std::string& codes);
// In 8 bits, with one scale.
std::optional<IntegerCodes> ActivationCodes(const graph::Model& model, const std::string& value);
// In 8 bits, with one scale, or one for each index of `channel_axis`.
std::optional<IntegerCodes> WeightCodes(const graph::Model& model, const std::string& value,
                                        int64_t channel_axis);
// The third input of a product of these two, in int32 with the products' scale and zero point 0:
// its codes, "" if there is none; nothing if it is another value.
std::optional<std::string> BiasCodes(const graph::Model& model, const graph::Node& node,
                                     const IntegerCodes& data, const IntegerCodes& weight);

// Whether equal codes mean equal values. REQUIRES: neither is per axis.
bool HasSameMeaning(const graph::Model& model, const IntegerCodes& x, const IntegerCodes& y);
// Whether a Relu or Clip before the QuantizeLinear that gives these codes changes none of them: its
// limits have the outermost codes, and quantizing keeps the order. REQUIRES: 8 bits, not per axis.
bool IsSaturation(const graph::Model& model, const graph::Node& node, const IntegerCodes& codes);

}  // namespace bitpress::emit
