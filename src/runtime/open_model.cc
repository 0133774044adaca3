#include "runtime/open_model.h"

#include <filesystem>

#include "base/scratch_folder.h"

namespace bitpress::runtime {
namespace {

uint64_t ConstantBytes(const graph::Model& model) {
  uint64_t bytes = 0;
  for (const std::string& name : model.InitializerNames()) {
    if (!model.IsDeferred(name)) bytes += model.Initializer(name).bytes.size();
  }
  return bytes;
}

}  // namespace

Session OpenModel(const graph::Model& model, const SessionOptions& options) {
  constexpr uint64_t kMostInMemory = 64'000'000;
  if (ConstantBytes(model) <= kMostInMemory) {
    return Session::FromMemory(model.Serialize(), options);
  }
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "part.onnx";
  model.Save(path, graph::ExternalData::kAlways);
  return Session(path, options);
}

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
