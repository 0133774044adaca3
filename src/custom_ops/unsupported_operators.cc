// Operators of Quark's library that we do not run. They are registered so that a model with them
// gets a clear error at load instead of "not a registered operator".
#include "base/error.h"
#include "custom_ops/operator.h"

namespace bitpress::custom_ops {

void AddUnsupportedOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  for (const std::string& name : {names.lstm, names.instance_normalization}) {
    OperatorSpec spec;
    spec.name = name;
    spec.input_types = {ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED};
    spec.output_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    spec.is_variadic = true;
    spec.make_kernel = [](const NodeInfo&) -> std::unique_ptr<OperatorKernel> {
      Fail(ErrorCode::kUnsupported,
           "this operator is not supported; leave the node float when the model is quantized");
    };
    specs.push_back(std::move(spec));
  }
}

}  // namespace bitpress::custom_ops
