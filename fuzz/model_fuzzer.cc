// Fuzzes everything of `bitpress inspect`, `unpack`, `plan` and `quantize` but ONNX Runtime: any
// bytes are loaded as a model, looked at, unpacked, planned, quantized and written. Each step may
// only succeed or throw Error, and a written model must load again.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "emit/apply_plan.h"
#include "fuzz/temporary_folder.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "ops/quantizer_nodes.h"
#include "plan/make_plan.h"
#include "weights/native_form.h"
#include "weights/unpack_functions.h"
#include "weights/unpack_weights.h"

namespace bitpress {
namespace {

// Returns a folder with the file of external data that models of the corpus name.
const std::filesystem::path& Folder() {
  static const TemporaryFolder* const folder = [] {
    static TemporaryFolder made;
    constexpr int kBytes = 4096;
    std::ofstream file(made.path() / "weights.bin", std::ios::binary);
    for (int i = 0; i < kBytes; ++i) file.put(i % 4 == 3 ? '\x3c' : static_cast<char>(i));
    return &made;
  }();
  return folder->path();
}

// Returns the configuration for a model. It follows from the model's size, so that the input alone
// decides everything.
plan::QuantConfig ConfigFor(size_t size) {
  const auto presets = plan::AllPresets();
  plan::QuantConfig config = plan::ConfigByName(presets[size % presets.size()].name);
  size /= presets.size();
  config.biases = size % 2 == 0 ? "none" : config.weights;
  config.placement = size / 2 % 2 == 0 ? plan::Placement::kCompute : plan::Placement::kAll;
  config.operators = size / 4 % 2 == 0 ? plan::OperatorSet::kBitpress : plan::OperatorSet::kQuark;
  return config;
}

// Returns whether `function` ends without an Error. Any other exception ends the fuzzer.
template <typename Function>
bool Succeeds(const Function& function) {
  try {
    function();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void Write(const graph::Model& model) {
  model.Check();
  const std::string bytes = model.Serialize();
  if (model.Nodes().empty()) return;  // valid, but an empty file looks the same
  try {
    graph::Model::Parse(bytes, Folder());
  } catch (const Error& error) {
    std::fprintf(stderr, "what was written does not load: %s\n", error.what());
    std::abort();
  }
}

void Run(std::string_view bytes) {
  static ThreadPool pool(1);
  graph::Model model = graph::Model::Parse(bytes, Folder());

  bool is_packed = false;
  for (const graph::Node& node : model.Nodes()) {
    node.Describe();
    is_packed = ops::IsUnpack(node) || ops::IsQuantizer(node) || is_packed;
    Succeeds([&] { weights::PackedWeightOf(model, node); });
    Succeeds([&] { is_packed = weights::NativeFormOf(model, node).has_value() || is_packed; });
  }
  if (is_packed) {
    Succeeds([&] {
      graph::Model floats = model.Clone();
      weights::UnpackWeights(floats, pool);
      weights::DropQuantizers(floats);
      graph::RemoveUnused(floats);
      Write(floats);
    });
  }

  graph::ConstantsToInitializers(model);
  graph::RemoveUnused(model);
  model.InferShapes();
  const plan::QuantPlan plan = plan::MakePlan(ConfigFor(bytes.size()), model, "fuzz");
  if (plan::FromJson(plan::ToJson(plan)) != plan) std::abort();
  const auto storage = bytes.size() % 5 == 0 ? emit::Storage::kSimulated : emit::Storage::kPacked;
  emit::ApplyOptions options;
  options.storage = storage;
  if (bytes.size() % 3 == 0) options.target = emit::Target::kOnnxRuntime;
  if (bytes.size() % 3 == 1) options.target = emit::Target::kBitpress;
  if (bytes.size() % 7 < 3) options.form = emit::IntegerForm::kQOperator;
  emit::ApplyPlan(model, {plan}, options, pool);
  Write(model);
}

}  // namespace
}  // namespace bitpress

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                             size_t size) {
  bitpress::Succeeds([&] { bitpress::Run({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
