// The preparation of a float model: it reads a file and gives the model that plans are made for.
// Every task on a float model begins with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "bitpress/quantize_options.h"
#include "graph/model.h"
#include "graph/narrow_to_half.h"
#include "graph/pass.h"
#include "plan/equalization.h"

namespace bitpress::rewrite {

using bitpress::Preparation;

struct PrepareOptions {
  Preparation preparation = Preparation::kOptimize;
  plan::Rewrites rewrites = {};
  graph::PassNames disabled_passes = {};  // see passes.h
};

// What ONNX Runtime's optimizer did to a model.
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

// What became FLOAT16.
struct NarrowReport {
  size_t num_half_nodes = 0;
  // The nodes that keep FLOAT values, and why.
  std::vector<std::pair<std::string, std::string>> kept;
  graph::NarrowedConstants constants;
  bool was_half = false;  // the network has FLOAT16 values already, and stays as it is
  // The Clips of FLOAT16 behind a Conv. ONNX Runtime (1.31) computes both in FLOAT on a CPU. It
  // does not fuse several Clips of equal limits with their Convs, unless the limits are FLOAT.
  size_t num_clips_behind_convs = 0;
};
constexpr auto FieldsOf(const NarrowReport*) {
  using Report = NarrowReport;
  return std::tuple(
      Field{"num_half_nodes", &Report::num_half_nodes},
      ComputedField{"num_constants",
                    [](const Report& report) { return report.constants.num_constants; }},
      ComputedField{"num_clipped",
                    [](const Report& report) { return report.constants.num_clipped; }},
      ComputedField{"num_vanished",
                    [](const Report& report) { return report.constants.num_vanished; }},
      Field{"kept", &Report::kept},
      Field{"num_clips_behind_convs", &Report::num_clips_behind_convs,
            "Clips of FLOAT16 behind a Conv, which ONNX Runtime does not fuse on a CPU."});
}

// What became of a model.
struct RewriteReport {
  // The inputs with values in the file, which a caller could replace and which are constants now.
  std::vector<std::string> fixed_inputs;
  OptimizerReport optimizer;
  size_t num_in_blocked_layout = 0;  // nodes that stay float, because they fit one machine
  std::optional<NarrowReport> narrowed;
  size_t num_widened = 0;  // FLOAT16 constants, inputs and outputs of a network that became FLOAT
  std::vector<graph::PassResult> passes;  // those that ran
};
constexpr auto FieldsOf(const RewriteReport*) {
  return std::tuple(Field{"fixed_inputs", &RewriteReport::fixed_inputs},
                    Field{"optimizer", &RewriteReport::optimizer},
                    Field{"num_widened", &RewriteReport::num_widened},
                    Field{"narrowed", &RewriteReport::narrowed});
}

// Loads a model, checks it and makes it ready to be planned: cleaned up, shapes inferred, equalized
// and rotated if requested. The same file and options give the same model, so that plans and
// calibrations fit it. Uses a temporary folder, which is gone at the end. Throws Error naming the
// file or the pass.
graph::Model Prepare(const std::filesystem::path& model, const PrepareOptions& options = {},
                     RewriteReport* report = nullptr);
// Does the same with a model that runtime::LoadPortable read from the file `path`.
graph::Model Prepare(graph::Model model, const std::filesystem::path& path,
                     const PrepareOptions& options, RewriteReport* report);

}  // namespace bitpress::rewrite
