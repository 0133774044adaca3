// The passes of the preparation, and their order. A pass is defined in the file that does its work.
// To add one, add it to both lists here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "graph/pass.h"
#include "rewrite/find_origins.h"
#include "rewrite/prepare.h"

namespace bitpress::rewrite {

// What the passes of one preparation share.
struct PrepareState {
  const std::filesystem::path& path;  // of the model's file, for messages
  const PrepareOptions& options;
  RewriteReport& report;
  std::optional<OriginFinder> given = {};  // the names of the given model
};
using PreparePass = graph::Pass<PrepareState>;

inline bool Optimizes(const graph::Model&, const PrepareState& state) {
  return state.options.preparation == Preparation::kOptimize;
}

// Returns a pass from a function that returns the number of its changes, and finds none if it runs
// again.
template <size_t (*kRun)(graph::Model&)>
constexpr PreparePass CleanUp(std::string_view name,
                              bool (*is_wanted)(const graph::Model&, const PrepareState&)) {
  return {.name = name,
          .run = [](graph::Model& model, PrepareState&) -> graph::PassResult {
            return kRun(model) > 0;
          },
          .is_wanted = is_wanted,
          .ensures_after =
              [](const graph::Model& result, const PrepareState&) {
                graph::Model again = result.Clone();
                return kRun(again) == 0;
              }};
}

// Returns the word with which the configuration asks for a pass that runs on request; "" if it does
// not.
std::string_view SettingOf(const PrepareState& state, const PreparePass& pass);

extern const PreparePass kFixInitializers, kTrimInputs, kRememberNames, kFixShapes, kNhwcInputs,
    kOptimize, kConstantsToInitializers, kLiftBodyConstants, kTakeConstantsOutOfLoops,
    kRemoveUnused, kWidenHalf, kNameNodes, kInferShapes, kFlattenSoftmax, kNameAllAxes,
    kLowerEinsum, kSqueezeConstants, kFuse, kSplitExperts, kFindOrigins, kEqualize, kRotate,
    kNarrowToHalf;

inline constexpr const PreparePass* kPrepareSchedule[] = {&kFixInitializers,
                                                          &kTrimInputs,
                                                          &kRememberNames,
                                                          &kFixShapes,
                                                          &kNhwcInputs,
                                                          &kOptimize,
                                                          &kConstantsToInitializers,
                                                          &kLiftBodyConstants,
                                                          &kTakeConstantsOutOfLoops,
                                                          &kRemoveUnused,
                                                          &kWidenHalf,
                                                          &kNameNodes,
                                                          &kInferShapes,
                                                          &kFlattenSoftmax,
                                                          &kNameAllAxes,
                                                          &kLowerEinsum,
                                                          &kSqueezeConstants,
                                                          &kFuse,
                                                          &kSplitExperts,
                                                          &kFindOrigins,
                                                          &kEqualize,
                                                          &kRotate,
                                                          &kNarrowToHalf};

}  // namespace bitpress::rewrite
