#include "rewrite/prepare.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
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

namespace {

// Splits a request such as "fuse=all" into the name of the pass and the word of its setting.
std::pair<std::string_view, std::string_view> Parts(std::string_view request) {
  const size_t equals = std::min(request.find('='), request.size());
  return {Trim(request.substr(0, equals)),
          Trim(request.substr(std::min(equals + 1, request.size())))};
}

// Throws Error(kInvalidArgument) where the configuration asks for a pass that does not run on
// request, or with a word that it does not know.
void CheckRequests(std::span<const std::string> requests) {
  std::vector<std::string> known;
  for (const PreparePass* const pass : kPrepareSchedule) {
    if (!pass->setting.empty()) known.push_back(fmt::format("{}={}", pass->name, pass->setting));
  }
  for (const std::string& request : requests) {
    const auto [name, word] = Parts(request);
    const bool is_known = std::ranges::any_of(kPrepareSchedule, [&](const PreparePass* pass) {
      // A form is read by the pass itself.
      const bool is_form = pass->setting.find(':') != std::string_view::npos;
      return pass->name == name && !word.empty() &&
             (is_form || std::ranges::count(Split(pass->setting, '|'), word) > 0);
    });
    if (is_known) continue;
    Fail(ErrorCode::kInvalidArgument, "setting passes: '{}' is none of {}", request,
         Join(known, "; "));
  }
}

}  // namespace

std::string_view SettingOf(const PrepareState& state, const PreparePass& pass) {
  for (const std::string& request : state.options.rewrites.passes) {
    const auto [name, word] = Parts(request);
    if (name == pass.name) return word;
  }
  return {};
}

graph::Model Prepare(const fs::path& path, const PrepareOptions& options, RewriteReport* report) {
  // Our own checks come first: their messages are better, and ONNX Runtime trusts what it reads.
  return Prepare(runtime::LoadPortable(path), path, options, report);
}

graph::Model Prepare(graph::Model model, const fs::path& path, const PrepareOptions& options,
                     RewriteReport* report) {
  CheckRequests(options.rewrites.passes);
  RewriteReport unread;
  PrepareState state{path, options, report != nullptr ? *report : unread};
  state.report.passes =
      graph::RunSchedule<PrepareState>(model, kPrepareSchedule, state, options.disabled_passes);
  return model;
}

}  // namespace bitpress::rewrite
