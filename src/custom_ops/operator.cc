#include "custom_ops/operator.h"

#include <exception>
#include <utility>

#include "base/error.h"

namespace bitpress::custom_ops {
namespace {

// Runs `function` and turns what it throws into a status with the node in front of the message.
template <class Function>
OrtStatusPtr AsStatus(const std::string& description, Function&& function) {
  try {
    function();
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::Status((description + ": " + error.what()).c_str(), error.GetOrtErrorCode())
        .release();
  } catch (const Error& error) {
    const OrtErrorCode code =
        error.code() == ErrorCode::kUnsupported ? ORT_NOT_IMPLEMENTED : ORT_INVALID_ARGUMENT;
    return Ort::Status((description + ": " + error.what()).c_str(), code).release();
  } catch (const std::exception& error) {
    return Ort::Status((description + ": " + error.what()).c_str(), ORT_FAIL).release();
  } catch (...) {
    return Ort::Status((description + ": unknown failure").c_str(), ORT_FAIL).release();
  }
}

size_t MayRunInPlace(int** input_index, int** output_index) {
  *input_index = new int(0);
  *output_index = new int(0);
  return 1;
}

void ReleaseInPlace(int* input_index, int* output_index) {
  delete input_index;
  delete output_index;
}

std::vector<std::unique_ptr<Operator>> MakeOperators(std::vector<OperatorSpec> specs) {
  std::vector<std::unique_ptr<Operator>> operators;
  for (OperatorSpec& spec : specs) operators.push_back(std::make_unique<Operator>(std::move(spec)));
  return operators;
}

std::vector<OperatorSpec> QuarkSpecs(const QuarkNames& names) {
  std::vector<OperatorSpec> specs;
  AddQuarkBlockOperators(names, specs);
  AddExtendedOperators(names, specs);
  AddUnsupportedOperators(names, specs);
  return specs;
}

}  // namespace

OrtStatusPtr OperatorKernel::ComputeV2(OrtKernelContext* context) const {
  return AsStatus(description_, [&] {
    Ort::KernelContext wrapped(context);
    Compute(wrapped);
  });
}

Operator::Operator(OperatorSpec spec) : spec_(std::move(spec)) {
  if (spec_.may_run_in_place) {
    OrtCustomOp::GetMayInplace = MayRunInPlace;
    OrtCustomOp::ReleaseMayInplace = ReleaseInPlace;
  }
  if (!spec_.is_variadic) {
    OrtCustomOp::InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
      return static_cast<const Operator*>(op)->InferShape(context);
    };
  }
}

OrtStatusPtr Operator::CreateKernelV2(const OrtApi&, const OrtKernelInfo* info,
                                      void** kernel) const {
  std::string description = spec_.name;
  OrtStatusPtr status = AsStatus(description, [&] {
    const NodeInfo node(info, spec_.name);
    description = node.description();
  });
  if (status != nullptr) return status;
  return AsStatus(description, [&] {
    std::unique_ptr<OperatorKernel> made = spec_.make_kernel(NodeInfo(info, spec_.name));
    made->set_description(description);
    *kernel = made.release();
  });
}

OrtCustomOpInputOutputCharacteristic Operator::GetInputCharacteristic(size_t) const {
  return spec_.is_variadic ? INPUT_OUTPUT_VARIADIC : INPUT_OUTPUT_REQUIRED;
}

OrtCustomOpInputOutputCharacteristic Operator::GetOutputCharacteristic(size_t) const {
  return spec_.is_variadic ? INPUT_OUTPUT_VARIADIC : INPUT_OUTPUT_REQUIRED;
}

// ONNX Runtime's C++ helper hands symbolic dimensions over in a way that newer runtimes refuse, and
// the refusal is lost: the output silently becomes a scalar. So this speaks the C API, and says
// nothing where a shape is not known.
OrtStatusPtr Operator::InferShape(OrtShapeInferContext* context) const {
  const OrtApi& api = Ort::GetApi();
  OrtTensorTypeAndShapeInfo* input = nullptr;  // owned by the context
  if (OrtStatusPtr status = api.ShapeInferContext_GetInputTypeShape(context, 0, &input))
    return status;
  size_t rank = 0;
  if (OrtStatusPtr status = api.GetDimensionsCount(input, &rank)) return status;
  if (rank == 0) return nullptr;  // a scalar or an unknown rank
  std::vector<int64_t> dims(rank);
  std::vector<const char*> symbols(rank);
  if (OrtStatusPtr status = api.GetDimensions(input, dims.data(), rank)) return status;
  if (OrtStatusPtr status = api.GetSymbolicDimensions(input, symbols.data(), rank)) return status;
  for (size_t i = 0; i < rank; ++i) {
    if (symbols[i] == nullptr) symbols[i] = "";
    if (dims[i] >= 0) continue;
    if (*symbols[i] == '\0') return nullptr;  // unknown, without a name
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
    AddSaturationOperator(specs);
    return MakeOperators(std::move(specs));
  }();
  return operators;
}

void ParallelFor(Ort::KernelContext& context, size_t num_tasks,
                 const std::function<void(size_t)>& task) {
  if (num_tasks == 1) return task(0);
  using Task = std::function<void(size_t)>;
  context.ParallelFor([](void* data, size_t i) { (*static_cast<const Task*>(data))(i); }, num_tasks,
                      0, const_cast<Task*>(&task));
}

}  // namespace bitpress::custom_ops
