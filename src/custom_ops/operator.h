// The glue between our operators and ONNX Runtime's C API. An operator is a row of data (name and
// types) and a function that makes its kernel. To add one, write an OperatorKernel and add a row to
// a list below; each combination of tensor types needs a row of its own.
//
// No exception leaves this room. Code that may throw, allocations included, runs inside functions
// that turn exceptions into OrtStatus (ort/status.h).
#pragma once

#include <onnxruntime_cxx_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "custom_ops/attributes.h"

namespace bitpress::custom_ops {

// The kernel of one node. Compute may run on several threads at once.
class OperatorKernel {
 public:
  virtual ~OperatorKernel() = default;
  // Computes the node's outputs. Throws Error or Ort::Exception.
  virtual void Compute(Ort::KernelContext& context) const = 0;

  // Called by ONNX Runtime's glue.
  OrtStatusPtr ComputeV2(OrtKernelContext* context) const;
  void set_description(std::string description) { description_ = std::move(description); }

 private:
  std::string description_;
};

using KernelFactory = std::function<std::unique_ptr<OperatorKernel>(const NodeInfo&)>;

// Rules for the type of the output (OperatorSpec::output_type_from).
inline constexpr int kTypeOfInput0 = 0;
inline constexpr int kTypeOfInput2 = 2;
inline constexpr int kFloatOutput = -1;

// The shape of the output.
enum class ShapeRule {
  kInput0,     // as input 0
  kProduct,    // as input 0, but the last dimension is that of the last input, a vector
  kLastInput,  // as the last input
  kUnknown,    // as the model says, if it does
};

// Where a row's kernel runs. Rows of one operator differ in types and in this.
enum class Provider { kCpu, kCuda };

struct OperatorSpec {
  std::string name;
  Provider provider = Provider::kCpu;
  std::vector<ONNXTensorElementDataType> input_types;
  ONNXTensorElementDataType output_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  int output_type_from = kTypeOfInput0;  // rule for type inference
  ShapeRule shape_rule = ShapeRule::kInput0;
  bool may_run_in_place = false;  // output 0 may use the memory of input 0
  KernelFactory make_kernel;
};

// An operator as ONNX Runtime's C++ interface wants it.
class Operator : public Ort::CustomOpBase<Operator, OperatorKernel, /*WithStatus=*/true> {
 public:
  explicit Operator(OperatorSpec spec);

  OrtStatusPtr CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info, void** kernel) const;
  const char* GetName() const { return spec_.name.c_str(); }
  const char* GetExecutionProviderType() const {
    return spec_.provider == Provider::kCuda ? "CUDAExecutionProvider" : nullptr;
  }
  size_t GetInputTypeCount() const { return spec_.input_types.size(); }
  ONNXTensorElementDataType GetInputType(size_t i) const { return spec_.input_types[i]; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return spec_.output_type; }

 private:
  // Gives the output its shape, symbolic dimensions included. Throws std::bad_alloc.
  OrtStatusPtr InferShape(OrtShapeInferContext* context) const;

  OperatorSpec spec_;
};

// Return every operator of a domain. The objects live as long as the process, as ONNX Runtime
// demands.
const std::vector<std::unique_ptr<Operator>>& QuarkOperators();     // com.amd.quark
const std::vector<std::unique_ptr<Operator>>& OldQuarkOperators();  // com.vai.quantize
const std::vector<std::unique_ptr<Operator>>& BitpressOperators();  // bitpress

// The names of Quark's operators in one of its domains.
struct QuarkNames {
  std::string mx, bfp, quantize, dequantize, lstm, instance_normalization;
};
// Append the rows of a group of operators.
void AddQuarkBlockOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs);
void AddExtendedOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs);
void AddCudaExtendedOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs);
void AddExtendedLayers(const QuarkNames& names, std::vector<OperatorSpec>& specs);
void AddBitpressOperators(std::vector<OperatorSpec>& specs);
void AddProductOperators(std::vector<OperatorSpec>& specs);
void AddConvolutionOperators(std::vector<OperatorSpec>& specs);
void AddSaturationOperator(std::vector<OperatorSpec>& specs);

}  // namespace bitpress::custom_ops
