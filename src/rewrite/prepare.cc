#include "rewrite/prepare.h"

#include <utility>

#include "graph/clean_up.h"
#include "graph/origins.h"
#include "graph/widen_half.h"
#include "rewrite/infer_types.h"
#include "rewrite/passes.h"
#include "runtime/machine.h"

namespace bitpress::rewrite {

namespace fs = std::filesystem;
using graph::Model;
using graph::PassResult;

const PreparePass kFixInitializers{.name = "fix-initializers",
                                   .run = [](Model& model, PrepareState& state) -> PassResult {
                                     state.report.fixed_inputs = graph::FixInitializers(model);
                                     return !state.report.fixed_inputs.empty();
                                   }};

const PreparePass kTrimInputs = CleanUp<graph::TrimInputs>("trim-inputs", nullptr);

const PreparePass kRememberNames{.name = "remember-names",
                                 .run = [](Model& model, PrepareState& state) -> PassResult {
                                   state.given.emplace(model);
                                   return false;
                                 },
                                 .can_be_off = false};

const PreparePass kConstantsToInitializers =
    CleanUp<graph::ConstantsToInitializers>("constants-to-initializers", nullptr);
const PreparePass kLiftBodyConstants =
    CleanUp<graph::LiftBodyConstants>("lift-body-constants", nullptr);
const PreparePass kTakeConstantsOutOfLoops =
    CleanUp<graph::TakeConstantsOutOfLoops>("take-constants-out-of-loops", nullptr);
const PreparePass kRemoveUnused = CleanUp<graph::RemoveUnused>("remove-unused", Optimizes);

const PreparePass kWidenHalf{.name = "widen-half",
                             .run = [](Model& model, PrepareState& state) -> PassResult {
                               state.report.num_widened = graph::WidenHalf(model);
                               return state.report.num_widened > 0;
                             },
                             .is_wanted =
                                 [](const Model& model, const PrepareState& state) {
                                   return Optimizes(model, state) &&
                                          state.options.rewrites.widens_half;
                                 },
                             .is_exact = false};

const PreparePass kNameNodes = CleanUp<graph::NameNodes>("name-nodes", nullptr);

const PreparePass kInferShapes{.name = "infer-shapes",
                               .run = [](Model& model, PrepareState&) -> PassResult {
                                 model.InferShapes();
                                 // Inference goes on from these types.
                                 if (InferTypes(model) > 0) model.InferShapes();
                                 return true;
                               }};

const PreparePass kFlattenSoftmax = CleanUp<graph::FlattenSoftmax>("flatten-softmax", nullptr);
const PreparePass kNameAllAxes = CleanUp<graph::NameAllAxes>("name-all-axes", nullptr);

const PreparePass kFindOrigins{.name = "find-origins",
                               .run = [](Model& model, PrepareState& state) -> PassResult {
                                 state.report.num_in_blocked_layout = NumInBlockedLayout(model);
                                 graph::SetOrigins(model, state.given->Find(model));
                                 return false;
                               },
                               .can_be_off = false};

graph::Model Prepare(const fs::path& path, const PrepareOptions& options, RewriteReport* report) {
  // Our own checks come first: their messages are better, and ONNX Runtime trusts what it reads.
  return Prepare(runtime::LoadPortable(path), path, options, report);
}

graph::Model Prepare(graph::Model model, const fs::path& path, const PrepareOptions& options,
                     RewriteReport* report) {
  RewriteReport unread;
  PrepareState state{path, options, report != nullptr ? *report : unread};
  state.report.passes =
      graph::RunSchedule<PrepareState>(model, kPrepareSchedule, state, options.disabled_passes);
  return model;
}

}  // namespace bitpress::rewrite
