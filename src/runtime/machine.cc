#include "runtime/machine.h"

#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "graph/own_domain.h"
#include "kernels/cpu_target.h"
#include "runtime/ort_library.h"

namespace bitpress::runtime {
namespace {

namespace fs = std::filesystem;

// The machine that a model was optimized for; "" if it runs anywhere.
std::string MachineOf(const graph::Model& model) {
  const auto metadata = model.Metadata();
  const auto found = metadata.find(kMachineMetadata);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

std::string DescribeMachine() {
  const std::string_view target = kernels::CurrentVectors();
  return fmt::format("ONNX Runtime {}, {}", OrtVersion(), target == "AVX3" ? "AVX-512" : target);
}

graph::Model LoadPortable(const fs::path& path) {
  graph::Model model = graph::Model::Load(path);
  WithContext(fmt::format("model '{}'", PathText(path)),
              [&] { graph::RefuseInternalOperators(model); });
  if (const std::string machine = MachineOf(model); !machine.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' was optimized for {} already, its operators and layouts are no longer ONNX's; give "
         "the model that it was made from",
         PathText(path), machine);
  }
  return model;
}

graph::Model LoadToRun(const fs::path& path) {
  graph::Model model = graph::Model::Load(path);
  const std::string machine = MachineOf(model);
  if (!machine.empty() && machine != DescribeMachine()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' was optimized for {}, but this is {}; optimize the model it was made from again, "
         "here",
         PathText(path), machine, DescribeMachine());
  }
  return model;
}

}  // namespace bitpress::runtime
