// The translation of ONNX Runtime's element types and errors into ours.
#include <string>
#include <string_view>

#include "runtime/ort_internal.h"

namespace bitpress::runtime {
namespace {

// The numbers that have no names in the oldest supported headers.
constexpr int kOrtUInt2 = 24;
constexpr int kOrtInt2 = 25;
constexpr int kOrtFloat8E8M0 = 26;

}  // namespace

ONNXTensorElementDataType ToOrtType(DataType type) {
  int number = static_cast<int>(type);
  if (type == DataType::kFloat8E8M0) number = kOrtFloat8E8M0;
  if (type == DataType::kUInt2) number = kOrtUInt2;
  if (type == DataType::kInt2) number = kOrtInt2;
  return static_cast<ONNXTensorElementDataType>(number);
}

DataType FromOrtType(ONNXTensorElementDataType type) {
  const int number = static_cast<int>(type);
  if (number == kOrtFloat8E8M0) return DataType::kFloat8E8M0;
  if (number == kOrtUInt2) return DataType::kUInt2;
  if (number == kOrtInt2) return DataType::kInt2;
  if (number < 0 || number > static_cast<int>(DataType::kFloat4E2M1)) return DataType::kUndefined;
  return static_cast<DataType>(number);
}

std::string CleanMessage(const Ort::Exception& error) {
  std::string_view message = error.what();
  // "/onnxruntime_src/onnxruntime/core/x.cc:182 onnxruntime::F(int) Text" becomes "Text". A
  // position is removed only at the start, and only if the signature's end is sure.
  if (message.starts_with('/')) {
    const size_t position = message.find(".cc:");
    const size_t signature = message.find(") ", position == std::string_view::npos ? 0 : position);
    if (position != std::string_view::npos && signature != std::string_view::npos) {
      message.remove_prefix(signature + 2);
    }
  }
  // "Load model from <path> failed:" is removed, because the caller names the path.
  constexpr std::string_view kLoad = "Load model from ";
  if (const size_t end = message.find(" failed:");
      message.starts_with(kLoad) && end != std::string_view::npos) {
    message.remove_prefix(end + 8);
  }
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) {
    message.remove_suffix(1);
  }
  return std::string(message);
}

Error LoadError(const Ort::Exception& error) {
  ErrorCode code = ErrorCode::kRuntime;
  switch (error.GetOrtErrorCode()) {
    case ORT_NO_SUCHFILE:
      code = ErrorCode::kIo;
      break;
    case ORT_NO_MODEL:
    case ORT_INVALID_PROTOBUF:
      code = ErrorCode::kInvalidModel;
      break;
    default:
      break;
  }
  const std::string message = CleanMessage(error);
  // A file that is cut off at the start of a field parses, as a model of nothing.
  if (message.find("No graph was found") != std::string::npos) code = ErrorCode::kInvalidModel;
  return Error(code, message);
}

}  // namespace bitpress::runtime
