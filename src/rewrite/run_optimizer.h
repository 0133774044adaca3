// ONNX Runtime's optimizer as the first step of preparing a model, and what takes back the parts of
// its work that make a model worse.
#pragma once

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"

namespace bitpress::rewrite {

struct OptimizerReport {
  // The reason why the model is as it was given: what the optimizer made of it does not load. Empty
  // otherwise.
  std::string undone;
  // Values that are computed as in the given model, because as constants they would be much larger
  // than what they are computed from.
  std::vector<std::string> kept_computed;
};
constexpr auto FieldsOf(const OptimizerReport*) {
  return std::tuple(Field{"undone", &OptimizerReport::undone},
                    Field{"kept_computed", &OptimizerReport::kept_computed});
}

// Cleans up `model`, which was loaded from `path`, a name for messages: constants and BatchNorm are
// folded, shape arithmetic goes. ONNX Runtime would copy the model's constants, which may be larger
// than memory, so those that it does not need are inputs while it works. Uses a temporary folder.
// Throws Error if ONNX Runtime does not load the given model.
graph::Model RunOptimizer(const std::filesystem::path& path, graph::Model model,
                          OptimizerReport& report);

// Puts nodes of `given` back into `optimized`, the same model after constants were folded, where a
// constant takes more bytes and has more elements than what it is computed from: Tile, Expand,
// ConstantOfShape, a sparse table made dense. The largest go back first, until all others together
// add no more than a twentieth to the constants. Returns the names of these constants, which are
// computed values then.
std::vector<std::string> UnfoldGrown(const graph::Model& given, graph::Model& optimized);

}  // namespace bitpress::rewrite
