#include "custom_ops/attributes.h"

#include <utility>

#include "base/error.h"

namespace bitpress::custom_ops {
namespace {

// Returns whether a call succeeded, and releases its status. The C API reports an absent attribute
// and a wrong type with the same code. Asking for every type tells the two apart.
bool Succeeds(OrtStatus* status) {
  if (status == nullptr) return true;
  Ort::GetApi().ReleaseStatus(status);
  return false;
}

}  // namespace

NodeInfo::NodeInfo(const OrtKernelInfo* info, std::string op_type)
    : info_(info), description_(std::move(op_type)) {
  const std::string name = info_.GetNodeName();
  if (!name.empty()) description_ += " '" + name + "'";
}

bool NodeInfo::HasOtherType(const char* attribute, Type wanted) const {
  const OrtApi& api = Ort::GetApi();
  int64_t as_int = 0;
  if (wanted != Type::kInt &&
      Succeeds(api.KernelInfoGetAttribute_int64(info_, attribute, &as_int))) {
    return true;
  }
  size_t size = 0;
  if (wanted != Type::kString &&
      Succeeds(api.KernelInfoGetAttribute_string(info_, attribute, nullptr, &size))) {
    return true;
  }
  size = 0;
  if (wanted != Type::kInts &&
      Succeeds(api.KernelInfoGetAttributeArray_int64(info_, attribute, nullptr, &size))) {
    return true;
  }
  float as_float = 0;
  if (wanted != Type::kFloat &&
      Succeeds(api.KernelInfoGetAttribute_float(info_, attribute, &as_float))) {
    return true;
  }
  size = 0;
  return Succeeds(api.KernelInfoGetAttributeArray_float(info_, attribute, nullptr, &size));
}

int64_t NodeInfo::Int(const char* attribute, int64_t fallback) const {
  int64_t value = 0;
  if (Succeeds(Ort::GetApi().KernelInfoGetAttribute_int64(info_, attribute, &value))) return value;
  if (HasOtherType(attribute, Type::kInt)) {
    Fail(ErrorCode::kInvalidModel, "attribute {} must be an integer", attribute);
  }
  return fallback;
}

float NodeInfo::Float(const char* attribute, float fallback) const {
  float value = 0;
  if (Succeeds(Ort::GetApi().KernelInfoGetAttribute_float(info_, attribute, &value))) return value;
  if (HasOtherType(attribute, Type::kFloat)) {
    Fail(ErrorCode::kInvalidModel, "attribute {} must be a float", attribute);
  }
  return fallback;
}

std::string NodeInfo::String(const char* attribute, const std::string& fallback) const {
  size_t size = 0;
  const OrtApi& api = Ort::GetApi();
  if (Succeeds(api.KernelInfoGetAttribute_string(info_, attribute, nullptr, &size))) {
    std::string value(size, '\0');
    Ort::ThrowOnError(api.KernelInfoGetAttribute_string(info_, attribute, value.data(), &size));
    value.resize(size > 0 ? size - 1 : 0);  // the size counts the final zero
    return value;
  }
  if (HasOtherType(attribute, Type::kString)) {
    Fail(ErrorCode::kInvalidModel, "attribute {} must be a string", attribute);
  }
  return fallback;
}

std::vector<int64_t> NodeInfo::Ints(const char* attribute) const {
  size_t size = 0;
  const OrtApi& api = Ort::GetApi();
  if (Succeeds(api.KernelInfoGetAttributeArray_int64(info_, attribute, nullptr, &size))) {
    std::vector<int64_t> values(size);
    if (size == 0) return values;
    Ort::ThrowOnError(
        api.KernelInfoGetAttributeArray_int64(info_, attribute, values.data(), &size));
    return values;
  }
  if (HasOtherType(attribute, Type::kInts)) {
    Fail(ErrorCode::kInvalidModel, "attribute {} must be a list of integers", attribute);
  }
  return {};
}

std::optional<int64_t> NodeInfo::InputRank(size_t index) const {
  const Ort::TypeInfo type = info_.GetInputTypeInfo(index);
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return std::nullopt;
  const size_t rank = type.GetTensorTypeAndShapeInfo().GetDimensionsCount();
  // ONNX Runtime says 0 for unknown ranks as well as for scalars.
  return rank == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(rank));
}

Ort::ConstValue NodeInfo::ConstantInput(size_t index) const {
  const std::optional<Ort::ConstValue> value = OptionalConstantInput(index);
  if (!value) Fail(ErrorCode::kInvalidModel, "input {} must be a constant of the model", index);
  return *value;
}

std::optional<Ort::ConstValue> NodeInfo::OptionalConstantInput(size_t index) const {
  int is_constant = 0;
  const Ort::ConstValue value = info_.GetTensorConstantInput(index, &is_constant);
  return is_constant != 0 ? std::optional(value) : std::nullopt;
}

formats::FormatSpec QuantizerFormat(const NodeInfo& node, formats::FormatSpec spec) {
  const std::string rounding(formats::RoundingModeName(spec.rounding));
  spec.rounding = formats::ParseRoundingMode(node.String("rounding_mode", rounding));
  if (spec.is_blocked()) {
    const std::string choice(formats::ScaleChoiceName(spec.scale_choice));
    spec.scale_choice = formats::ParseScaleChoice(node.String("scale_choice", choice));
  }
  formats::Validate(spec);
  return spec;
}

int64_t AxisFromFront(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    Fail(ErrorCode::kInvalidModel,
         "attribute axis is {}, expected {} to {} for an input of {} dimensions", axis, -rank,
         rank - 1, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

}  // namespace bitpress::custom_ops
