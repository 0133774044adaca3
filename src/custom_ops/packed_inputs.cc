#include "custom_ops/packed_inputs.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/mapped_memory.h"
#include "formats/packed_tensor.h"
#include "formats/parameters.h"

namespace bitpress::custom_ops {
namespace {

// Returns the bytes of a part of a weight, whose elements are bytes, or two of them.
std::span<const uint8_t> BytesOf(const Ort::ConstValue& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  const bool is_wide = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
  return {static_cast<const uint8_t*>(value.GetTensorRawData()),
          info.GetElementCount() * (is_wide ? 2 : 1)};
}

}  // namespace

size_t NumParts(const formats::FormatSpec& spec) {
  if (!spec.is_blocked()) return 1;
  return formats::HasShifts(spec) ? 3 : 2;
}

std::vector<ONNXTensorElementDataType> CodeTypes(const formats::FormatSpec& spec) {
  switch (spec.onnx_type) {
    case DataType::kFloat8E4M3FN:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN};
    case DataType::kFloat8E5M2:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2};
    case DataType::kInt8:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8};
    case DataType::kBFloat16:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16};
    default:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8};
  }
}

std::vector<std::string> NumberedNames(const formats::FormatSpec& spec) {
  std::vector<std::string> names;
  for (int number = 1; number <= kMostNumbers; ++number) {
    names.push_back(fmt::format("{}_{}", formats::BaseName(spec), number));
  }
  return names;
}

std::vector<formats::FormatSpec> ParametricFormats() {
  std::vector<formats::FormatSpec> formats;
  for (const std::string_view base : formats::ParametricBases()) {
    const auto fallback = [](const formats::FormatParameter& parameter) {
      return parameter.fallback;
    };
    formats.push_back(formats::MakeFormat(base, fallback));
  }
  return formats;
}

formats::FormatSpec FormatAttribute(const NodeInfo& node, const char* attribute) {
  return WithContext(fmt::format("attribute {}", attribute),
                     [&] { return formats::FindFormat(node.String(attribute, "")); });
}

formats::FormatSpec WeightFormat(const NodeInfo& node, const formats::FormatSpec& base) {
  formats::FormatSpec spec = FormatAttribute(node, "format");
  if (formats::BaseName(spec) != formats::BaseName(base) || NumParts(spec) != NumParts(base)) {
    Fail(ErrorCode::kInvalidModel, "attribute format: {} is no format of this operator", spec.name);
  }
  return spec;
}

PackedInputs::PackedInputs(const NodeInfo& node, const formats::FormatSpec& spec) {
  for (const formats::PackedPart part : formats::PartsOf(spec)) {
    parts.push_back(node.ConstantInput(1 + parts.size()));
    view[part] = BytesOf(parts.back());
  }
  if (!spec.is_blocked()) {
    shape = parts.front().GetTensorTypeAndShapeInfo().GetShape();
    const std::vector<int64_t> perm = node.Ints("perm");  // of a product
    if (shape.size() < 2 || (!perm.empty() && shape.size() != 2)) {
      Fail(ErrorCode::kInvalidModel,
           "the codes do not describe a matrix or a convolution's weight");
    }
    if (perm == std::vector<int64_t>{0, 1}) {
      axis = shape[0];
      inner = shape[1];
      return;
    }
    outer = shape[0];
    axis = shape[1];
    for (size_t i = 2; i < shape.size(); ++i) inner *= shape[i];
    return;
  }
  shape = node.Ints("shape");
  const std::vector<int64_t> blocks = node.Ints("blocks");
  if (blocks.size() != 4 || std::ranges::any_of(blocks, [](int64_t n) { return n < 1; })) {
    Fail(ErrorCode::kInvalidModel, "attribute blocks must have four positive numbers");
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  if (blocks[1] > kMost / blocks[2]) {
    Fail(ErrorCode::kInvalidModel, "attribute blocks is too large");
  }
  outer = blocks[0];
  axis = blocks[1] * blocks[2];
  inner = blocks[3];
}

size_t PackedInputs::num_threads() const {
  constexpr size_t kFewBytes = size_t{1} << 16;
  return view.codes.size() > kFewBytes ? 0 : 1;
}

void PackedInputs::Release() const {
  for (const auto part : {view.codes, view.scales, view.shifts}) {
    ReleaseUnchangedPages(std::as_bytes(part));
  }
}

}  // namespace bitpress::custom_ops
