#include "runtime/describe_inputs.h"

namespace bitpress::runtime {
std::vector<ValueDescription> DescribeInputs(const graph::Model& model) {
  std::vector<ValueDescription> inputs;
  for (const std::string& name : model.InputNames()) {
    const graph::ValueInfo info = model.InfoOf(name);
    ValueDescription input{name, info.type, {}};
    for (const graph::Dimension& dim : info.shape) input.dims.push_back(dim.value);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace bitpress::runtime
