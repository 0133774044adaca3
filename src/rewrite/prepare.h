// The preparation of a float model: it reads a file and gives the model that plans are made for.
// Every task on a float model begins with it.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "bitpress/quantize_options.h"
#include "graph/model.h"
#include "graph/pass.h"
#include "plan/equalization.h"
#include "rewrite/equalize.h"
#include "rewrite/narrow_network.h"
#include "rewrite/rotate.h"
#include "rewrite/run_optimizer.h"

namespace bitpress::rewrite {

using bitpress::Preparation;

struct PrepareOptions {
  Preparation preparation = Preparation::kOptimize;
  plan::Rewrites rewrites = {};
  graph::PassNames disabled_passes = {};
};

// The passes of Prepare, in their order.
inline constexpr std::array<std::string_view, 17> kPreparePasses = {
    "fix-initializers",
    "trim-inputs",
    "optimize",
    "constants-to-initializers",
    "lift-body-constants",
    "take-constants-out-of-loops",
    "remove-unused",
    "widen-half",
    "name-nodes",
    "infer-shapes",
    "flatten-softmax",  // in operator sets before 13
    "name-all-axes",
    "lower-einsum",
    "squeeze-constants",
    "equalize",
    "rotate",
    "narrow-to-half"};

// What became of a model.
struct RewriteReport {
  // The inputs with values in the file, which a caller could replace and which are constants now.
  std::vector<std::string> fixed_inputs;
  OptimizerReport optimizer;
  size_t num_in_blocked_layout = 0;  // nodes that stay float, because they fit one machine
  std::optional<EqualizeReport> equalized;
  std::optional<RotateReport> rotated;
  std::optional<NarrowReport> narrowed;
  size_t num_widened = 0;  // FLOAT16 constants, inputs and outputs of a network that became FLOAT
};
constexpr auto FieldsOf(const RewriteReport*) {
  return std::tuple(
      Field{"fixed_inputs", &RewriteReport::fixed_inputs},
      Field{"optimizer", &RewriteReport::optimizer}, Field{"equalized", &RewriteReport::equalized},
      Field{"num_widened", &RewriteReport::num_widened},
      Field{"narrowed", &RewriteReport::narrowed}, Field{"rotated", &RewriteReport::rotated});
}

// Loads a model, checks it and makes it ready to be planned: cleaned up, shapes inferred, equalized
// and rotated if wished. The same file and options give the same model, so that plans and
// calibrations fit it. Uses a temporary folder, which is gone at the end. Throws Error naming the
// file or the pass.
graph::Model Prepare(const std::filesystem::path& model, const PrepareOptions& options = {},
                     RewriteReport* report = nullptr);
// Does the same with a model that runtime::LoadPortable read from the file `path`.
graph::Model Prepare(graph::Model model, const std::filesystem::path& path,
                     const PrepareOptions& options, RewriteReport* report);

}  // namespace bitpress::rewrite
