// com.amd.quark::ExtendedQuantizeLinear and ExtendedDequantizeLinear: ONNX's QuantizeLinear and
// DequantizeLinear for more types of codes. The codes have the type of the zero point.
#include <algorithm>
#include <utility>

#include "custom_ops/extended_runs.h"
#include "custom_ops/operator.h"
#include "kernels/extended_codes.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using kernels::BFloat16;
using kernels::Half;

class ExtendedKernel : public OperatorKernel {
 public:
  explicit ExtendedKernel(const NodeInfo& node) : axis_(node.Int("axis", 0)) {}

 protected:
  // Calls convert(input, output, elements, scale, zero point) for all runs of the node's tensors.
  template <typename Input, typename Output, typename Code, class Convert>
  void Run(Ort::KernelContext& context, const Convert& convert) const {
    const Ort::ConstValue x = context.GetInput(0), scale = context.GetInput(1),
                          zero_point = context.GetInput(2);
    const auto info = x.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> dims = info.GetShape();
    const size_t num_scales = scale.GetTensorTypeAndShapeInfo().GetElementCount();
    const size_t num_zero_points = zero_point.GetTensorTypeAndShapeInfo().GetElementCount();
    const Runs runs = RunsOf(axis_, dims, info.GetElementCount(), num_scales, num_zero_points);
    CheckScales({scale.GetTensorData<float>(), num_scales});
    const auto* in = static_cast<const Input*>(x.GetTensorRawData());
    const auto* zeros = static_cast<const Code*>(zero_point.GetTensorRawData());
    const float* scales = scale.GetTensorData<float>();
    auto* out = static_cast<Output*>(context.GetOutput(0, dims).GetTensorMutableRawData());
    ForEachRun(context, runs, [&](size_t begin, size_t size, size_t i) {
      convert(in + begin, out + begin, size, scales[i], zeros[i]);
    });
  }

 private:
  // Calls work(first element, elements, index of the scale) for pieces of runs, in parallel.
  template <class Work>
  static void ForEachRun(Ort::KernelContext& context, const Runs& runs, const Work& work) {
    constexpr size_t kElementsPerTask = 1 << 14;
    if (runs.count == 1) {
      ort::ParallelFor(context, (runs.length + kElementsPerTask - 1) / kElementsPerTask,
                       [&](size_t task) {
                         const size_t begin = task * kElementsPerTask;
                         work(begin, std::min(kElementsPerTask, runs.length - begin), 0);
                       });
      return;
    }
    const size_t runs_per_task =
        std::max<size_t>(1, kElementsPerTask / std::max<size_t>(1, runs.length));
    ort::ParallelFor(context, (runs.count + runs_per_task - 1) / runs_per_task, [&](size_t task) {
      const size_t end = std::min(runs.count, (task + 1) * runs_per_task);
      for (size_t run = task * runs_per_task; run < end; ++run) {
        work(run * runs.length, runs.length, run % runs.num_scales);
      }
    });
  }

  int64_t axis_;
};

template <typename Input, typename Code>
class QuantizeKernel : public ExtendedKernel {
 public:
  using ExtendedKernel::ExtendedKernel;
  void Compute(Ort::KernelContext& context) const override {
    Run<Input, Code, Code>(context, [](const auto&... run) { kernels::QuantizeExtended(run...); });
  }
};

template <typename Code>
class DequantizeKernel : public ExtendedKernel {
 public:
  using ExtendedKernel::ExtendedKernel;
  void Compute(Ort::KernelContext& context) const override {
    Run<Code, float, Code>(context,
                           [](const auto&... run) { kernels::DequantizeExtended(run...); });
  }
};

template <class Kernel>
std::unique_ptr<OperatorKernel> Make(const NodeInfo& node) {
  return std::make_unique<Kernel>(node);
}

template <typename Code>
void AddForCode(const QuarkNames& names, ONNXTensorElementDataType code,
                std::vector<OperatorSpec>& specs) {
  constexpr auto kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  constexpr auto kFloat16 = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
  OperatorSpec quantize;
  quantize.name = names.quantize;
  quantize.input_types = {kFloat, kFloat, code};
  quantize.output_type = code;
  quantize.output_type_from = kTypeOfInput2;
  quantize.make_kernel = Make<QuantizeKernel<float, Code>>;
  specs.push_back(quantize);
  quantize.input_types[0] = kFloat16;
  quantize.make_kernel = Make<QuantizeKernel<Half, Code>>;
  specs.push_back(std::move(quantize));
  OperatorSpec dequantize;
  dequantize.name = names.dequantize;
  dequantize.input_types = {code, kFloat, code};
  dequantize.output_type = kFloat;
  dequantize.output_type_from = kFloatOutput;
  dequantize.make_kernel = Make<DequantizeKernel<Code>>;
  specs.push_back(std::move(dequantize));
}

}  // namespace

void AddExtendedOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  AddForCode<uint8_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, specs);
  AddForCode<int8_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, specs);
  AddForCode<uint16_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, specs);
  AddForCode<int16_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, specs);
  AddForCode<uint32_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, specs);
  AddForCode<int32_t>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, specs);
  AddForCode<Half>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, specs);
  AddForCode<BFloat16>(names, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, specs);
}

}  // namespace bitpress::custom_ops
