#include "base/tensor.h"

namespace bitpress {

std::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kUndefined:
      return "UNDEFINED";
    case DataType::kFloat:
      return "FLOAT";
    case DataType::kUInt8:
      return "UINT8";
    case DataType::kInt8:
      return "INT8";
    case DataType::kUInt16:
      return "UINT16";
    case DataType::kInt16:
      return "INT16";
    case DataType::kInt32:
      return "INT32";
    case DataType::kInt64:
      return "INT64";
    case DataType::kString:
      return "STRING";
    case DataType::kBool:
      return "BOOL";
    case DataType::kFloat16:
      return "FLOAT16";
    case DataType::kDouble:
      return "DOUBLE";
    case DataType::kUInt32:
      return "UINT32";
    case DataType::kUInt64:
      return "UINT64";
    case DataType::kComplex64:
      return "COMPLEX64";
    case DataType::kComplex128:
      return "COMPLEX128";
    case DataType::kBFloat16:
      return "BFLOAT16";
    case DataType::kFloat8E4M3FN:
      return "FLOAT8E4M3FN";
    case DataType::kFloat8E4M3FNUZ:
      return "FLOAT8E4M3FNUZ";
    case DataType::kFloat8E5M2:
      return "FLOAT8E5M2";
    case DataType::kFloat8E5M2FNUZ:
      return "FLOAT8E5M2FNUZ";
    case DataType::kUInt4:
      return "UINT4";
    case DataType::kInt4:
      return "INT4";
    case DataType::kFloat4E2M1:
      return "FLOAT4E2M1";
    case DataType::kFloat8E8M0:
      return "FLOAT8E8M0";
    case DataType::kUInt2:
      return "UINT2";
    case DataType::kInt2:
      return "INT2";
  }
  return "UNKNOWN";
}

}  // namespace bitpress
