#include "rewrite/prepare.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "graph/clean_up.h"
#include "graph/origins.h"
#include "graph/widen_half.h"
#include "ops/quantizer_nodes.h"
#include "rewrite/find_origins.h"
#include "rewrite/infer_types.h"
#include "rewrite/lower_einsum.h"
#include "rewrite/squeeze_constants.h"
#include "runtime/half_casts.h"
#include "runtime/machine.h"
#include "runtime/optimize.h"

namespace bitpress::rewrite {
namespace {

namespace fs = std::filesystem;

// Returns whether the clean-up can do without the values of a constant: it is large, and only
// operators into which nothing is folded read it.
bool CanHide(const graph::Model& model, const std::string& name) {
  constexpr size_t kLeastBytes = size_t{1} << 20;
  if (model.Initializer(name).bytes.size() < kLeastBytes || model.IsOutput(name) ||
      model.IsUsedInSubgraph(name)) {
    return false;
  }
  const std::vector<graph::Use> uses = model.Uses(name);
  return std::ranges::all_of(uses, [&](const graph::Use& use) {
    const std::string& op = use.node.op_type();
    if (op != "MatMul" && op != "Gemm" && op != "Gather") return false;
    const std::vector<graph::Use> readers = model.Uses(use.node.output(0));
    return std::ranges::none_of(readers, [](const graph::Use& reader) {
      return reader.node.op_type() == "BatchNormalization";
    });
  });
}

// Cleans up a model. ONNX Runtime would copy the model's constants, which may be larger than
// memory, so those that it does not need are inputs while it works. `is_changed`: the model is no
// longer that of the file.
graph::Model CleanUp(const fs::path& path, graph::Model model, bool is_changed) {
  std::vector<std::pair<std::string, graph::HeldInitializer>> hidden;
  for (const std::string& name : model.InitializerNames()) {
    if (CanHide(model, name)) hidden.emplace_back(name, model.HoldInitializer(name));
  }
  const auto clean_up = [](const fs::path& from, const fs::path& to) {
    runtime::OptimizeBasic(from, to);
  };
  const bool is_held = runtime::HoldHalfCasts(model) > 0;
  for (const auto& [name, data] : hidden) model.InitializerToInput(name);
  const ScratchFolder folder;
  fs::path rest = path;
  if (is_changed || is_held || !hidden.empty()) {
    rest = folder.path() / path.filename();
    model.Save(rest);
  }
  graph::Model optimized = runtime::LoadOptimized(rest, clean_up);
  runtime::RestoreHalf(model, optimized);
  graph::RemoveAddedAttributes(model, optimized);
  for (const auto& [name, data] : hidden) optimized.InputToInitializer(name, data);
  return optimized;
}

}  // namespace

graph::Model Prepare(const fs::path& path, const PrepareOptions& options, RewriteReport* report) {
  // Our own checks come first: their messages are better, and ONNX Runtime trusts what it reads.
  graph::Model model = runtime::LoadPortable(path);
  graph::PassRunner passes(options.disabled_passes);
  const auto clean_up = [&](std::string_view name, size_t (*run)(graph::Model&)) {
    passes.Run(model, {.name = name,
                       .run = [=](graph::Model& changed) { return run(changed) > 0; },
                       .ensures_after =
                           [=](const graph::Model& result) {
                             graph::Model again = result.Clone();
                             return run(again) == 0;
                           }});
  };
  std::vector<std::string> fixed_inputs;
  passes.Run(model, {.name = "fix-initializers", .run = [&](graph::Model& changed) {
                       fixed_inputs = graph::FixInitializers(changed);
                       return !fixed_inputs.empty();
                     }});
  const OriginFinder names(model);
  // Weights stored as codes mean that we wrote the model, from one that was cleaned up. ONNX
  // Runtime would decode them and store floats.
  const bool has_codes = std::ranges::any_of(model.AllNodes(), ops::ReadsCodes);
  if (options.preparation == Preparation::kOptimize && !has_codes) {
    passes.Run(model, {.name = "optimize", .run = [&](graph::Model& changed) {
                         changed = CleanUp(path, std::move(changed), !fixed_inputs.empty());
                         return true;
                       }});
  }
  clean_up("constants-to-initializers", graph::ConstantsToInitializers);
  clean_up("lift-body-constants", graph::LiftBodyConstants);
  clean_up("take-constants-out-of-loops", graph::TakeConstantsOutOfLoops);
  if (options.preparation == Preparation::kOptimize) {
    clean_up("remove-unused", graph::RemoveUnused);
  }
  if (options.preparation == Preparation::kOptimize && options.rewrites.widens_half) {
    passes.Run(model, {.name = "widen-half", .run = [&](graph::Model& changed) {
                         const size_t num_widened = graph::WidenHalf(changed);
                         if (report != nullptr) report->num_widened = num_widened;
                         return num_widened > 0;
                       }});
  }
  clean_up("name-nodes", graph::NameNodes);
  passes.Run(model, {.name = "infer-shapes", .run = [](graph::Model& changed) {
                       changed.InferShapes();
                       // Inference goes on from these types.
                       if (InferTypes(changed) > 0) changed.InferShapes();
                       return true;
                     }});
  if (options.preparation == Preparation::kOptimize) {
    clean_up("lower-einsum", LowerEinsum);
    clean_up("squeeze-constants", SqueezeConstants);
  }
  graph::SetOrigins(model, names.Find(model));
  if (options.rewrites.equalization) {
    passes.Run(model, {.name = "equalize", .run = [&](graph::Model& changed) {
                         EqualizeReport equalized =
                             Equalize(changed, *options.rewrites.equalization);
                         const bool is_modified = !equalized.pairs.empty();
                         if (report != nullptr) report->equalized = std::move(equalized);
                         return is_modified;
                       }});
  }
  if (options.rewrites.rotation > 0) {
    passes.Run(model, {.name = "rotate", .run = [&](graph::Model& changed) {
                         RotateReport rotated = Rotate(changed, options.rewrites.rotation);
                         const bool is_modified = rotated.num_layers > 0;
                         if (report != nullptr) report->rotated = std::move(rotated);
                         return is_modified;
                       }});
  }
  if (report != nullptr) report->fixed_inputs = std::move(fixed_inputs);
  return model;
}

}  // namespace bitpress::rewrite
