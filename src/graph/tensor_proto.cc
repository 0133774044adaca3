#include "graph/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/error.h"
#include "base/paths.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/model.h"
#include "graph/onnx_error.h"

namespace bitpress::graph {
namespace {

using onnx::TensorProto;

// The field with the elements of a tensor that is not stored raw, and the number that it must hold.
struct TypedField {
  const char* name;
  int64_t found;
  uint64_t expected;
};

TypedField TypedFieldOf(const TensorProto& tensor, uint64_t num_elements, uint64_t num_bytes) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return {"float_data", tensor.float_data_size(), num_elements};
    case TensorProto::COMPLEX64:
      return {"float_data", tensor.float_data_size(), num_bytes / sizeof(float)};
    case TensorProto::DOUBLE:
      return {"double_data", tensor.double_data_size(), num_elements};
    case TensorProto::COMPLEX128:
      return {"double_data", tensor.double_data_size(), num_bytes / sizeof(double)};
    case TensorProto::INT64:
      return {"int64_data", tensor.int64_data_size(), num_elements};
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return {"uint64_data", tensor.uint64_data_size(), num_elements};
    case TensorProto::STRING:
      return {"string_data", tensor.string_data_size(), num_elements};
    default:  // one element, or one byte of packed elements, in each entry
      return {"int32_data", tensor.int32_data_size(), std::min(num_elements, num_bytes)};
  }
}

template <typename To, typename Field>
std::string Narrow(const Field& field) {
  std::string bytes(static_cast<size_t>(field.size()) * sizeof(To), '\0');
  char* out = bytes.data();
  for (const auto value : field) {
    const To narrow = static_cast<To>(value);
    std::memcpy(out, &narrow, sizeof narrow);
    out += sizeof narrow;
  }
  return bytes;
}

}  // namespace

std::string DescribeType(const TensorProto& tensor) {
  return fmt::format("{} [{}]", DataTypeName(TypeOf(tensor)),
                     fmt::join(tensor.dims().begin(), tensor.dims().end(), ", "));
}

uint64_t ExpectedBytes(const TensorProto& tensor) {
  const DataType type = TypeOf(tensor);
  if (type == DataType::kUndefined || !TensorProto::DataType_IsValid(tensor.data_type())) {
    Fail(ErrorCode::kInvalidModel, "tensor '{}' has element type {}, which is none of ONNX's",
         tensor.name(), tensor.data_type());
  }
  if (ElementBits(type) == 0 && type != DataType::kString) {
    Fail(ErrorCode::kUnsupported, "tensor '{}' has element type {}, which is not supported",
         tensor.name(), TensorProto::DataType_Name(static_cast<int>(type)));
  }
  try {
    return NumBytes(type, NumElements(DimsOf(tensor)));
  } catch (const Error& error) {
    Fail(ErrorCode::kInvalidModel, "tensor '{}': {}", tensor.name(), error.what());
  }
}

void CheckTensorData(const TensorProto& tensor) {
  BITPRESS_DCHECK(!IsExternal(tensor));
  const uint64_t num_bytes = ExpectedBytes(tensor);
  if (tensor.has_segment()) {
    Fail(ErrorCode::kUnsupported, "tensor '{}' is stored in segments, which is not supported",
         tensor.name());
  }
  if (tensor.has_raw_data() && tensor.data_type() != TensorProto::STRING) {
    if (tensor.raw_data().size() == num_bytes) return;
    // Some writers leave an empty raw_data beside the typed field.
    if (!tensor.raw_data().empty()) {
      Fail(ErrorCode::kInvalidModel, "tensor '{}': raw_data has {} bytes, but {} takes {}",
           tensor.name(), tensor.raw_data().size(), DescribeType(tensor), num_bytes);
    }
  }
  const auto num_elements = static_cast<uint64_t>(NumElements(DimsOf(tensor)));
  const TypedField field = TypedFieldOf(tensor, num_elements, num_bytes);
  if (static_cast<uint64_t>(field.found) != field.expected) {
    Fail(ErrorCode::kInvalidModel, "tensor '{}': {} has {} entries, but {} takes {}", tensor.name(),
         field.name, field.found, DescribeType(tensor), field.expected);
  }
}

void MoveToRawData(TensorProto& tensor) {
  if (tensor.data_type() == TensorProto::STRING || !tensor.raw_data().empty()) return;
  std::string bytes;
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
    case TensorProto::COMPLEX64:
      bytes = Narrow<float>(tensor.float_data());
      break;
    case TensorProto::DOUBLE:
    case TensorProto::COMPLEX128:
      bytes = Narrow<double>(tensor.double_data());
      break;
    case TensorProto::INT64:
      bytes = Narrow<int64_t>(tensor.int64_data());
      break;
    case TensorProto::UINT64:
      bytes = Narrow<uint64_t>(tensor.uint64_data());
      break;
    case TensorProto::UINT32:
      bytes = Narrow<uint32_t>(tensor.uint64_data());
      break;
    case TensorProto::INT32:
      bytes = Narrow<int32_t>(tensor.int32_data());
      break;
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      bytes = Narrow<uint16_t>(tensor.int32_data());
      break;
    default:
      bytes = Narrow<uint8_t>(tensor.int32_data());
      break;
  }
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_uint64_data();
  tensor.set_raw_data(std::move(bytes));
}

Tensor LoadTensorProto(const std::filesystem::path& path) {
  const std::string content = ReadFile(path);
  const google::protobuf::LogSilencer silencer;
  TensorProto proto;
  try {
    return TranslateErrors(ErrorCode::kInvalidArgument, "not a tensor", [&] {
      if (!proto.ParseFromString(content)) {
        Fail(ErrorCode::kInvalidArgument, "not a tensor: damaged or truncated protobuf");
      }
      if (IsExternal(proto) || proto.data_type() == TensorProto::STRING) {
        Fail(ErrorCode::kInvalidArgument, "tensor '{}' {}; a tensor file must hold its own numbers",
             proto.name(), IsExternal(proto) ? "is stored in another file" : "holds strings");
      }
      CheckTensorData(proto);
      MoveToRawData(proto);
      Tensor tensor{TypeOf(proto), {proto.dims().begin(), proto.dims().end()}, {}};
      tensor.bytes.resize(proto.raw_data().size());
      if (!tensor.bytes.empty()) {
        std::memcpy(tensor.bytes.data(), proto.raw_data().data(), tensor.bytes.size());
      }
      return tensor;
    });
  } catch (const Error& error) {
    Fail(ErrorCode::kInvalidArgument, "'{}': {}", PathText(path), error.what());
  }
}

}  // namespace bitpress::graph
