// The schemas of operators outside ONNX that we know, for its checker and shape inference. They are
// loose, because the operator library checks attributes and types when a model is loaded for
// running.
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "formats/format_spec.h"
#include "formats/parameters.h"
#include "graph/model_impl.h"
#include "graph/own_domain.h"
#include "onnx/defs/schema.h"
#include "onnx/defs/shape_inference.h"

namespace bitpress::graph {
namespace {

using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::OpSchemaRegistry;

constexpr const char* kQuark = "com.amd.quark";
constexpr const char* kOldQuark = "com.vai.quantize";

void PropagateShape(InferenceContext& context) {
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

void InferSameAsInput(InferenceContext& context) {
  if (context.getInputType(0) == nullptr) return;
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  PropagateShape(context);
}

// Infers that the codes have the type of the zero point.
void InferQuantizeLinear(InferenceContext& context) {
  constexpr size_t kZeroPoint = 2;
  if (context.getNumInputs() <= kZeroPoint || context.getInputType(kZeroPoint) == nullptr) return;
  onnx::propagateElemTypeFromInputToOutput(context, kZeroPoint, 0);
  PropagateShape(context);
}

void InferDequantizeLinear(InferenceContext& context) {
  onnx::updateOutputElemType(context, 0, onnx::TensorProto::FLOAT);
  PropagateShape(context);
}

OpSchema Operator(const char* domain, std::string name, void (*infer)(InferenceContext&)) {
  OpSchema schema(std::move(name), "", 0);
  schema.SetDomain(domain).SinceVersion(1).AllowUncheckedAttributes();
  schema.Input(0, "x", "", "T").Output(0, "y", "", "U");
  schema.TypeConstraint("T", OpSchema::all_tensor_types_ir13(), "");
  schema.TypeConstraint("U", OpSchema::all_tensor_types_ir13(), "");
  schema.TypeAndShapeInferenceFunction(infer);
  return schema;
}

OpSchema LinearOperator(const char* domain, std::string name, void (*infer)(InferenceContext&)) {
  OpSchema schema = Operator(domain, std::move(name), infer);
  // The zero point has the type of the codes, which are read or written.
  schema.Input(1, "scale", "", "S").Input(2, "zero_point", "", "Z", OpSchema::Optional);
  schema.TypeConstraint("S", OpSchema::all_tensor_types_ir13(), "");
  schema.TypeConstraint("Z", OpSchema::all_tensor_types_ir13(), "");
  return schema;
}

void AddDomain(const char* domain) {
  auto& domains = OpSchemaRegistry::DomainToVersionRange::Instance();
  if (!domains.Map().contains(domain)) domains.AddDomainToVersion(domain, 1, 1);
}

void Register(const OpSchema& schema) {
  onnx::RegisterSchema(schema, /*opset_version_to_load=*/0, /*fail_duplicate_schema=*/false,
                       /*fail_with_exception=*/true);
}

void RegisterAll() {
  for (const char* domain : {kQuark, kOldQuark, kOwnDomain}) AddDomain(domain);
  for (const char* name : {"MXQuantizeDequantize", "BFPQuantizeDequantize"}) {
    Register(Operator(kQuark, name, InferSameAsInput));
  }
  for (const char* name : {"MXFixNeuron", "BFPFixNeuron"}) {
    Register(Operator(kOldQuark, name, InferSameAsInput));
  }
  Register(LinearOperator(kQuark, "ExtendedQuantizeLinear", InferQuantizeLinear));
  Register(LinearOperator(kQuark, "ExtendedDequantizeLinear", InferDequantizeLinear));
  Register(LinearOperator(kOldQuark, "VitisQuantizeLinear", InferQuantizeLinear));
  Register(LinearOperator(kOldQuark, "VitisDequantizeLinear", InferDequantizeLinear));

  // There is one operator for each format, and one for the formats of any size with one base name,
  // whose sizes are attributes.
  std::set<std::string> names(formats::ParametricBases().begin(), formats::ParametricBases().end());
  for (const formats::FormatSpec& format : formats::AllFormats()) {
    if (!format.is_integer()) names.insert(format.name);
  }
  for (const std::string& name : names) {
    Register(Operator(kOwnDomain, "QuantizeDequantize_" + name, InferSameAsInput));
  }
}

}  // namespace

void RegisterSchemas() {
  static std::once_flag once;
  std::call_once(once, RegisterAll);
}

}  // namespace bitpress::graph
