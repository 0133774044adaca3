// Reads the attributes of a node while a kernel of the operator library is made from it. An absent
// attribute has the operator's default, and one of another type is an error. It also knows the
// node's description, which every error gets on its way to ONNX Runtime.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::custom_ops {

class NodeInfo {
 public:
  NodeInfo(const OrtKernelInfo* info, std::string op_type);

  // Return the attribute, or `fallback` if it is absent. Throw Error(kInvalidModel) if it has
  // another type.
  int64_t Int(const char* attribute, int64_t fallback) const;
  float Float(const char* attribute, float fallback) const;
  std::string String(const char* attribute, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* attribute) const;  // empty where it is absent

  // Returns the number of dimensions of an input. Null if the model does not say it.
  std::optional<int64_t> InputRank(size_t index) const;

  // Returns an input that is a constant of the model. It lives as long as the session. Throws
  // Error(kInvalidModel) if it is none.
  Ort::ConstValue ConstantInput(size_t index) const;
  // The same, and nothing if it is none.
  std::optional<Ort::ConstValue> OptionalConstantInput(size_t index) const;

  // Returns the operator and the node's name: "MXQuantizeDequantize 'conv1_input'".
  const std::string& description() const { return description_; }

 private:
  enum class Type { kInt, kFloat, kString, kInts };
  // Returns whether the attribute exists with another type than `wanted`.
  bool HasOtherType(const char* attribute, Type wanted) const;

  Ort::ConstKernelInfo info_;
  std::string description_;
};

// Returns the format of one of our quantizers, with what its node says of scale choice and
// rounding. Throws Error(kInvalidModel) or Error(kInvalidArgument) if there are no such words.
formats::FormatSpec QuantizerFormat(const NodeInfo& node, formats::FormatSpec spec);

// Returns an `axis` attribute counted from the front. Throws Error(kInvalidModel) if a tensor of
// `rank` dimensions has no such axis.
int64_t AxisFromFront(int64_t axis, int64_t rank);

}  // namespace bitpress::custom_ops
