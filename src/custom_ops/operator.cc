#include "custom_ops/operator.h"

#include <utility>

#include "ort/kernels.h"
#include "ort/status.h"

namespace bitpress::custom_ops {
namespace {

std::vector<std::unique_ptr<Operator>> MakeOperators(std::vector<OperatorSpec> specs) {
  std::vector<std::unique_ptr<Operator>> operators;
  for (OperatorSpec& spec : specs) operators.push_back(std::make_unique<Operator>(std::move(spec)));
  return operators;
}

std::vector<OperatorSpec> QuarkSpecs(const QuarkNames& names) {
  std::vector<OperatorSpec> specs;
  AddQuarkBlockOperators(names, specs);
  AddExtendedOperators(names, specs);
  AddCudaExtendedOperators(names, specs);
  AddExtendedLayers(names, specs);
  return specs;
}

}  // namespace

OrtStatusPtr OperatorKernel::ComputeV2(OrtKernelContext* context) const {
  return ort::AsStatus(description_, [&] {
    Ort::KernelContext wrapped(context);
    Compute(wrapped);
    return OrtStatusPtr();
  });
}

Operator::Operator(OperatorSpec spec) : spec_(std::move(spec)) {
  if (spec_.may_run_in_place) ort::AllowInPlace(*this);
  OrtCustomOp::InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
    const auto* const self = static_cast<const Operator*>(op);
    return ort::AsStatus(self->spec_.name, [&] { return self->InferShape(context); });
  };
}

OrtStatusPtr Operator::CreateKernelV2(const OrtApi&, const OrtKernelInfo* info,
                                      void** kernel) const {
  std::string description;
  OrtStatusPtr status = ort::AsStatus(spec_.name, [&] {
    description = NodeInfo(info, spec_.name).description();
    return OrtStatusPtr();
  });
  if (status != nullptr) return status;
  return ort::AsStatus(description, [&] {
    std::unique_ptr<OperatorKernel> made = spec_.make_kernel(NodeInfo(info, spec_.name));
    made->set_description(description);
    *kernel = made.release();
    return OrtStatusPtr();
  });
}

// Uses the C API, because ONNX Runtime's C++ helper hands symbolic dimensions over in a way that
// newer runtimes refuse. The helper ignores the refusal, and the output becomes a scalar. Sets
// nothing if the shape is not known.
OrtStatusPtr Operator::InferShape(OrtShapeInferContext* context) const {
  if (spec_.shape_rule == ShapeRule::kUnknown) return nullptr;
  const OrtApi& api = Ort::GetApi();
  OrtTensorTypeAndShapeInfo* input = nullptr;  // owned by the context
  const size_t like = spec_.shape_rule == ShapeRule::kLastInput ? spec_.input_types.size() - 1 : 0;
  if (OrtStatusPtr status = api.ShapeInferContext_GetInputTypeShape(context, like, &input))
    return status;
  size_t rank = 0;
  if (OrtStatusPtr status = api.GetDimensionsCount(input, &rank)) return status;
  if (rank == 0) return nullptr;  // a scalar or an unknown rank
  std::vector<int64_t> dims(rank);
  std::vector<const char*> symbols(rank);
  if (OrtStatusPtr status = api.GetDimensions(input, dims.data(), rank)) return status;
  if (OrtStatusPtr status = api.GetSymbolicDimensions(input, symbols.data(), rank)) return status;
  if (spec_.shape_rule == ShapeRule::kProduct) {
    OrtTensorTypeAndShapeInfo* vector = nullptr;  // owned by the context
    const size_t last = spec_.input_types.size() - 1;
    if (OrtStatusPtr status = api.ShapeInferContext_GetInputTypeShape(context, last, &vector))
      return status;
    size_t vector_rank = 0;
    if (OrtStatusPtr status = api.GetDimensionsCount(vector, &vector_rank)) return status;
    if (vector_rank != 1) return nullptr;
    if (OrtStatusPtr status = api.GetDimensions(vector, &dims.back(), 1)) return status;
    symbols.back() = "";
  }
  for (size_t i = 0; i < rank; ++i) {
    if (symbols[i] == nullptr) symbols[i] = "";
    if (dims[i] >= 0) continue;
    if (*symbols[i] == '\0') return nullptr;  // the dimension is unknown and has no name
    dims[i] = -1;
  }
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  if (spec_.output_type_from != kFloatOutput) {
    OrtTensorTypeAndShapeInfo* typed = nullptr;
    if (OrtStatusPtr status = api.ShapeInferContext_GetInputTypeShape(
            context, static_cast<size_t>(spec_.output_type_from), &typed)) {
      return status;
    }
    if (OrtStatusPtr status = api.GetTensorElementType(typed, &type)) return status;
  }
  OrtTensorTypeAndShapeInfo* output = nullptr;
  if (OrtStatusPtr status = api.CreateTensorTypeAndShapeInfo(&output)) return status;
  OrtStatusPtr status = api.SetTensorElementType(output, type);
  if (status == nullptr) status = api.SetDimensions(output, dims.data(), rank);
  if (status == nullptr) status = api.SetSymbolicDimensions(output, symbols.data(), rank);
  if (status == nullptr) status = api.ShapeInferContext_SetOutputTypeShape(context, 0, output);
  api.ReleaseTensorTypeAndShapeInfo(output);
  return status;
}

const std::vector<std::unique_ptr<Operator>>& QuarkOperators() {
  static const auto operators = MakeOperators(
      QuarkSpecs({"MXQuantizeDequantize", "BFPQuantizeDequantize", "ExtendedQuantizeLinear",
                  "ExtendedDequantizeLinear", "ExtendedLSTM", "ExtendedInstanceNormalization"}));
  return operators;
}

const std::vector<std::unique_ptr<Operator>>& OldQuarkOperators() {
  static const auto operators = MakeOperators(
      QuarkSpecs({"MXFixNeuron", "BFPFixNeuron", "VitisQuantizeLinear", "VitisDequantizeLinear",
                  "VitisLSTM", "VitisInstanceNormalization"}));
  return operators;
}

const std::vector<std::unique_ptr<Operator>>& BitpressOperators() {
  static const auto operators = [] {
    std::vector<OperatorSpec> specs;
    AddBitpressOperators(specs);
    AddProductOperators(specs);
    AddConvolutionOperators(specs);
    AddSaturationOperator(specs);
    return MakeOperators(std::move(specs));
  }();
  return operators;
}

}  // namespace bitpress::custom_ops
