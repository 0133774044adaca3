// Attributes of a node as a kernel is made from it: absent ones take the operator's default,
// ill-typed ones are errors. Also puts the node's name into every error on the way up to ONNX
// Runtime.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bitpress::custom_ops {

class NodeInfo {
 public:
  NodeInfo(const OrtKernelInfo* info, std::string op_type);

  // Throw Error(kInvalidModel) if the attribute is there with another type.
  int64_t Int(const char* attribute, int64_t fallback) const;
  std::string String(const char* attribute, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* attribute) const;  // empty where it is absent

  // Number of dimensions of an input, if the model says it.
  std::optional<int64_t> InputRank(size_t index) const;

  // "MXQuantizeDequantize 'conv1_input'".
  const std::string& description() const { return description_; }

 private:
  enum class Type { kInt, kString, kInts };
  // Whether the attribute exists with a type other than the one asked for.
  bool HasOtherType(const char* attribute, Type wanted) const;

  Ort::ConstKernelInfo info_;
  std::string description_;
};

// An `axis` attribute counted from the front. Throws Error(kInvalidModel) if it is none of a tensor
// of `rank` dimensions.
int64_t AxisFromFront(int64_t axis, int64_t rank);

}  // namespace bitpress::custom_ops
