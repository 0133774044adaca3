// com.amd.quark::ExtendedInstanceNormalization and ExtendedLSTM: two layers as an accelerator
// computes them. All tensors are float32.
//
//   ExtendedInstanceNormalization
//     inputs   x [N, C, ...], scale [C], bias [C]
//     output   as x
//     attribute epsilon
//   ExtendedLSTM, bidirectional, for a batch of one sequence
//     inputs   x [steps, 1, input size], w [2, 4 * hidden size, input size],
//              r [2, 4 * hidden size, hidden size], b [2, 8 * hidden size]
//     output   y [steps, 2, 1, hidden size]
//     attributes hidden_size, and for each of x, w, r, b and y a scale and a zero point of uint16
//              codes: x_scale, x_zero_point, ...
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "custom_ops/operator.h"
#include "kernels/extended_instance_norm.h"
#include "kernels/extended_lstm.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using Dims = std::vector<int64_t>;

Dims ShapeOfInput(const Ort::ConstValue& value) {
  return value.GetTensorTypeAndShapeInfo().GetShape();
}

void CheckDims(const Ort::ConstValue& value, const char* name, const Dims& wanted) {
  const Dims found = ShapeOfInput(value);
  if (found != wanted) {
    Fail(ErrorCode::kInvalidModel, "input {} has shape [{}], expected [{}]", name,
         fmt::join(found, ", "), fmt::join(wanted, ", "));
  }
}

class InstanceNormKernel : public OperatorKernel {
 public:
  explicit InstanceNormKernel(const NodeInfo& node) : epsilon_(node.Float("epsilon", 1e-5f)) {}

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0);
    const Dims dims = ShapeOfInput(x);
    if (dims.size() < 2) {
      Fail(ErrorCode::kInvalidModel, "input x has {} dimensions, expected at least 2", dims.size());
    }
    CheckDims(context.GetInput(1), "scale", {dims[1]});
    CheckDims(context.GetInput(2), "bias", {dims[1]});
    const auto channels = static_cast<size_t>(dims[1]);
    const size_t rows = static_cast<size_t>(dims[0]) * channels;
    const float* in = x.GetTensorData<float>();
    const float* scale = context.GetInput(1).GetTensorData<float>();
    const float* bias = context.GetInput(2).GetTensorData<float>();
    float* out = context.GetOutput(0, dims).GetTensorMutableData<float>();
    if (rows == 0) return;
    const size_t count = x.GetTensorTypeAndShapeInfo().GetElementCount() / rows;
    ort::ParallelFor(context, rows, [&](size_t row) {
      const size_t channel = row % channels;
      kernels::ExtendedInstanceNorm(in + row * count, out + row * count, count, scale[channel],
                                    bias[channel], epsilon_);
    });
  }

 private:
  float epsilon_;
};

// Returns one tensor's scale and zero point. Both attributes must be there.
kernels::CodeScale CodeScaleOf(const NodeInfo& node, const std::string& tensor) {
  constexpr int64_t kAbsent = std::numeric_limits<int64_t>::min();
  const std::string scale_name = tensor + "_scale", zero_name = tensor + "_zero_point";
  const float scale = node.Float(scale_name.c_str(), std::numeric_limits<float>::quiet_NaN());
  if (scale != scale) {
    Fail(ErrorCode::kInvalidModel, "attribute {} is missing or no number", scale_name);
  }
  const int64_t zero_point = node.Int(zero_name.c_str(), kAbsent);
  if (zero_point == kAbsent) {
    Fail(ErrorCode::kInvalidModel, "attribute {} is missing", zero_name);
  }
  constexpr int64_t kMax = std::numeric_limits<uint16_t>::max();
  if (zero_point < 0 || zero_point > kMax) {
    Fail(ErrorCode::kInvalidModel, "attribute {} is {}, expected 0 to {}", zero_name, zero_point,
         kMax);
  }
  return {scale, static_cast<uint16_t>(zero_point)};
}

void RefuseUnless(const NodeInfo& node, const char* attribute, int64_t supported) {
  const int64_t value = node.Int(attribute, supported);
  if (value != supported) {
    Fail(ErrorCode::kUnsupported, "attribute {} is {}, and only {} is supported", attribute, value,
         supported);
  }
}

class LstmKernel : public OperatorKernel {
 public:
  explicit LstmKernel(const NodeInfo& node)
      : lstm_({CodeScaleOf(node, "x"), CodeScaleOf(node, "w"), CodeScaleOf(node, "r"),
               CodeScaleOf(node, "b"), CodeScaleOf(node, "y")}),
        hidden_size_(node.Int("hidden_size", 0)) {
    // Shapes hold eight times the hidden size.
    if (hidden_size_ < 1 || hidden_size_ > std::numeric_limits<int32_t>::max() / 8) {
      Fail(ErrorCode::kInvalidModel, "attribute hidden_size is {}, expected a positive number",
           hidden_size_);
    }
    const std::string direction = node.String("direction", "bidirectional");
    if (direction != "bidirectional") {
      Fail(ErrorCode::kUnsupported,
           "attribute direction is {}, and only bidirectional is supported", direction);
    }
    RefuseUnless(node, "input_forget", 0);
    RefuseUnless(node, "layout", 0);
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0);
    const Dims dims = ShapeOfInput(x);
    if (dims.size() != 3 || dims[1] != 1 || dims[2] < 1) {
      Fail(ErrorCode::kInvalidModel,
           "input x has shape [{}], expected [steps, 1, input size]: the operator takes one "
           "sequence at a time",
           fmt::join(dims, ", "));
    }
    CheckDims(context.GetInput(1), "w", {2, 4 * hidden_size_, dims[2]});
    CheckDims(context.GetInput(2), "r", {2, 4 * hidden_size_, hidden_size_});
    CheckDims(context.GetInput(3), "b", {2, 8 * hidden_size_});
    const kernels::ExtendedLstmSizes sizes{static_cast<size_t>(dims[0]),
                                           static_cast<size_t>(dims[2]),
                                           static_cast<size_t>(hidden_size_)};
    const float* w = context.GetInput(1).GetTensorData<float>();
    const float* r = context.GetInput(2).GetTensorData<float>();
    const float* b = context.GetInput(3).GetTensorData<float>();
    float* y =
        context.GetOutput(0, Dims{dims[0], 2, 1, hidden_size_}).GetTensorMutableData<float>();
    if (sizes.steps == 0) return;
    const size_t hidden = sizes.hidden_size;
    ort::ParallelFor(context, 2, [&](size_t direction) {
      const kernels::ExtendedLstmTensors tensors{x.GetTensorData<float>(),
                                                 w + direction * 4 * hidden * sizes.input_size,
                                                 r + direction * 4 * hidden * hidden,
                                                 b + direction * 8 * hidden,
                                                 y + direction * hidden,
                                                 2 * hidden};
      lstm_.Run(sizes, tensors, direction == 1);
    });
  }

 private:
  kernels::ExtendedLstm lstm_;
  int64_t hidden_size_;
};

}  // namespace

void AddExtendedLayers(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  constexpr auto kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  OperatorSpec norm;
  norm.name = names.instance_normalization;
  norm.input_types = {kFloat, kFloat, kFloat};
  norm.make_kernel = [](const NodeInfo& node) {
    return std::make_unique<InstanceNormKernel>(node);
  };
  specs.push_back(std::move(norm));
  OperatorSpec lstm;
  lstm.name = names.lstm;
  lstm.input_types = {kFloat, kFloat, kFloat, kFloat};
  lstm.shape_rule = ShapeRule::kUnknown;
  lstm.make_kernel = [](const NodeInfo& node) { return std::make_unique<LstmKernel>(node); };
  specs.push_back(std::move(lstm));
}

}  // namespace bitpress::custom_ops
