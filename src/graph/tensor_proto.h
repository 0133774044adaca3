// Helpers for ONNX's TensorProto, for loading a model: the bytes that a tensor must have, the check
// that it holds them, and its typed fields as raw bytes. Errors name the tensor, what was found and
// what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/tensor.h"
#include "onnx/onnx_pb.h"

namespace bitpress::graph {

inline std::span<const int64_t> DimsOf(const onnx::TensorProto& tensor) {
  return {tensor.dims().data(), static_cast<size_t>(tensor.dims_size())};
}
inline DataType TypeOf(const onnx::TensorProto& tensor) {
  return static_cast<DataType>(tensor.data_type());
}
inline bool IsExternal(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

// Returns type and shape for messages: "FLOAT [2, 3]".
std::string DescribeType(const onnx::TensorProto& tensor);

// Returns the number of bytes that type and dimensions ask for. Throws Error(kInvalidModel) if no
// tensor can have them, Error(kUnsupported) for a type this release does not know.
uint64_t ExpectedBytes(const onnx::TensorProto& tensor);

// Checks that the message holds exactly the elements its type and dimensions ask for. Throws
// Error(kInvalidModel). REQUIRES: the tensor is not external.
void CheckTensorData(const onnx::TensorProto& tensor);

// Moves float_data, int32_data, ... to raw_data. Strings stay where they are. REQUIRES:
// CheckTensorData passed.
void MoveToRawData(onnx::TensorProto& tensor);

}  // namespace bitpress::graph
