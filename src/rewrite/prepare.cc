#include "rewrite/prepare.h"

#include <algorithm>
#include <utility>

#include "graph/clean_up.h"
#include "graph/origins.h"
#include "graph/widen_half.h"
#include "ops/quantizer_nodes.h"
#include "rewrite/find_origins.h"
#include "rewrite/infer_types.h"
#include "rewrite/lower_einsum.h"
#include "rewrite/run_optimizer.h"
#include "rewrite/squeeze_constants.h"
#include "runtime/machine.h"

namespace bitpress::rewrite {

namespace fs = std::filesystem;

graph::Model Prepare(const fs::path& path, const PrepareOptions& options, RewriteReport* report) {
  // Our own checks come first: their messages are better, and ONNX Runtime trusts what it reads.
  return Prepare(runtime::LoadPortable(path), path, options, report);
}

graph::Model Prepare(graph::Model model, const fs::path& path, const PrepareOptions& options,
                     RewriteReport* report) {
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
  clean_up("trim-inputs", graph::TrimInputs);
  const OriginFinder names(model);
  // Weights stored as codes mean that we wrote the model, from one that was cleaned up. ONNX
  // Runtime would decode them and store floats.
  const bool has_codes = std::ranges::any_of(model.AllNodes(), ops::ReadsCodes);
  if (options.preparation == Preparation::kOptimize && !has_codes) {
    passes.Run(model, {.name = "optimize", .run = [&](graph::Model& changed) {
                         OptimizerReport optimizer;
                         changed = RunOptimizer(path, std::move(changed), optimizer);
                         if (report != nullptr) report->optimizer = std::move(optimizer);
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
  clean_up("flatten-softmax", graph::FlattenSoftmax);
  clean_up("name-all-axes", graph::NameAllAxes);
  if (options.preparation == Preparation::kOptimize) {
    clean_up("lower-einsum", LowerEinsum);
    clean_up("squeeze-constants", SqueezeConstants);
  }
  if (report != nullptr) report->num_in_blocked_layout = NumInBlockedLayout(model);
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
  if (options.rewrites.half) {
    passes.Run(model, {.name = "narrow-to-half", .run = [&](graph::Model& changed) {
                         NarrowReport narrowed = NarrowNetwork(changed, *options.rewrites.half);
                         const bool is_modified = !narrowed.was_half;
                         InferTypes(changed);
                         if (report != nullptr) report->narrowed = std::move(narrowed);
                         return is_modified;
                       }});
  }
  if (report != nullptr) report->fixed_inputs = std::move(fixed_inputs);
  return model;
}

}  // namespace bitpress::rewrite
