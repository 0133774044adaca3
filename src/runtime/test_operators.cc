// TEST ONLY. An operator library as users have it: test.operators:Twice doubles floats.
#include "runtime/ort_internal.h"

namespace {

struct TwiceKernel {
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context(raw);
    const Ort::ConstValue x = context.GetInput(0);
    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();
    const float* const from = x.GetTensorData<float>();
    float* const to = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    for (size_t i = 0; i < info.GetElementCount(); ++i) to[i] = 2 * from[i];
  }
};

struct Twice : Ort::CustomOpBase<Twice, TwiceKernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new TwiceKernel; }
  const char* GetName() const { return "Twice"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const Twice twice;
  static Ort::CustomOpDomain* const domain = [] {
    auto* const made = new Ort::CustomOpDomain("test.operators");
    made->Add(&twice);
    return made;
  }();
  Ort::UnownedSessionOptions(options).Add(*domain);
  return nullptr;
}
