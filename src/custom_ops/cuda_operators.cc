// The kernels of our operators on CUDA. They read and write the device's memory on the session's
// stream; the rules of nodes are those of the processor's kernels.
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/driver.h"
#include "custom_ops/block_node.h"
#include "custom_ops/extended_runs.h"
#include "custom_ops/operator.h"

namespace bitpress::custom_ops {
namespace {

class CudaFakeQuantizeKernel : public OperatorKernel {
 public:
  explicit CudaFakeQuantizeKernel(BlockNode node) : node_(std::move(node)) {}

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0);
    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> dims = info.GetShape();
    const void* const from = x.GetTensorRawData();
    void* const to = context.GetOutput(0, dims).GetTensorMutableRawData();
    const size_t count = info.GetElementCount();
    const bool is_half = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    void* const stream = context.GetGPUComputeStream();
    if (node_.PassesThrough(count)) {
      const size_t bytes = is_half ? sizeof(uint16_t) : sizeof(float);
      if (to != from) cuda::Driver::Get().CopyInside(to, from, bytes, stream);
      return;
    }
    const cuda::Launch launch =
        cuda::PlanFakeQuantize(node_.spec(), node_.ShapeOf(dims, count), is_half, from, to);
    if (!launch.is_empty()) cuda::Driver::Get().Run(launch, stream);
  }

 private:
  BlockNode node_;
};

// The two operators with scales and zero points, which lie on the device, too.
class CudaExtendedKernel : public OperatorKernel {
 public:
  CudaExtendedKernel(const NodeInfo& node, cuda::Code code, bool dequantizes)
      : axis_(node.Int("axis", 0)), code_(code), dequantizes_(dequantizes) {
    cuda::Driver::Get();
    CheckConstantScales(node);
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0), scale = context.GetInput(1),
                          zero_point = context.GetInput(2);
    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> dims = info.GetShape();
    const size_t count = info.GetElementCount();
    const Runs runs =
        RunsOf(axis_, dims, count, scale.GetTensorTypeAndShapeInfo().GetElementCount(),
               zero_point.GetTensorTypeAndShapeInfo().GetElementCount());
    cuda::LinearTensors tensors;
    tensors.x = x.GetTensorRawData();
    tensors.y = context.GetOutput(0, dims).GetTensorMutableRawData();
    tensors.scales = scale.GetTensorData<float>();
    tensors.zero_points = zero_point.GetTensorRawData();
    tensors.count = static_cast<int64_t>(count);
    tensors.inner = static_cast<int64_t>(runs.length);
    tensors.num_scales = static_cast<int64_t>(runs.num_scales);
    tensors.code = code_;
    const bool is_half = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    const cuda::Launch launch =
        dequantizes_ ? cuda::PlanDequantize(tensors) : cuda::PlanQuantize(tensors, is_half);
    if (!launch.is_empty()) cuda::Driver::Get().Run(launch, context.GetGPUComputeStream());
  }

 private:
  // Checks scales that are constants of the model. Others stay unchecked: reading them back would
  // make the device wait.
  static void CheckConstantScales(const NodeInfo& node) {
    const std::optional<Ort::ConstValue> value = node.OptionalConstantInput(1);
    if (!value) return;
    std::vector<float> scales(value->GetTensorTypeAndShapeInfo().GetElementCount());
    const size_t bytes = scales.size() * sizeof(float);
    if (value->GetTensorMemoryInfo().GetDeviceType() == OrtMemoryInfoDeviceType_CPU) {
      std::memcpy(scales.data(), value->GetTensorRawData(), bytes);
    } else if (bytes > 0) {
      cuda::Driver::Get().CopyToHost(scales.data(), value->GetTensorRawData(), bytes);
    }
    CheckScales(scales);
  }

  int64_t axis_;
  cuda::Code code_;
  bool dequantizes_;
};

struct CodeType {
  ONNXTensorElementDataType type;
  cuda::Code code;
};

}  // namespace

std::unique_ptr<OperatorKernel> MakeCudaBlockKernel(BlockNode node) {
  cuda::Driver::Get();  // what is wrong with it is said while the model is loaded
  return std::make_unique<CudaFakeQuantizeKernel>(std::move(node));
}

void AddCudaExtendedOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  constexpr auto kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  constexpr auto kFloat16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
  for (const CodeType& of : {CodeType{ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, cuda::kUInt8},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, cuda::kInt8},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, cuda::kUInt16},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, cuda::kInt16},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, cuda::kUInt32},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, cuda::kInt32},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, cuda::kHalf},
                             {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, cuda::kBFloat16}}) {
    OperatorSpec spec;
    spec.provider = Provider::kCuda;
    spec.name = names.quantize;
    spec.output_type = of.type;
    spec.output_type_from = kTypeOfInput2;
    spec.make_kernel = [code = of.code](const NodeInfo& node) {
      return std::make_unique<CudaExtendedKernel>(node, code, false);
    };
    for (const auto input : {kFloat, kFloat16}) {
      spec.input_types = {input, kFloat, of.type};
      specs.push_back(spec);
    }
    spec.name = names.dequantize;
    spec.input_types = {of.type, kFloat, of.type};
    spec.output_type = kFloat;
    spec.output_type_from = kFloatOutput;
    spec.make_kernel = [code = of.code](const NodeInfo& node) {
      return std::make_unique<CudaExtendedKernel>(node, code, true);
    };
    specs.push_back(std::move(spec));
  }
}

}  // namespace bitpress::custom_ops
