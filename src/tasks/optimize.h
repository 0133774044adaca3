// The task `optimize`: rewrites a model so that machines like this one run it fastest. Use it as
// the last step before the model is deployed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>

#include "base/fields.h"
#include "deploy/remove_reorders.h"
#include "graph/pass.h"

namespace bitpress::tasks {

struct OptimizeOptions {
  std::filesystem::path model;   // float or quantized
  std::filesystem::path output;  // not `model`, which alone runs elsewhere. Written as by Quantize
  graph::PassNames disabled_passes = {};  // see AllPasses; for bisecting
  bool is_checked = true;                 // the written model is loaded and run, see WriteModel
};

struct OptimizeReport {
  std::string machine;
  deploy::RemovedReorders reorders;
  uint64_t input_bytes = 0;  // size of the files, external data included
  uint64_t output_bytes = 0;
  std::string why_not_checked;
};
constexpr auto FieldsOf(const OptimizeReport*) {
  using Report = OptimizeReport;
  return std::tuple(
      Field{"machine", &Report::machine, "'ONNX Runtime 1.31.1, AVX-512'."},
      Field{"input_bytes", &Report::input_bytes}, Field{"output_bytes", &Report::output_bytes},
      ComputedField{"num_reorders_removed",
                    [](const Report& report) { return report.reorders.num_removed; }},
      ComputedField{"num_quantizers_moved",
                    [](const Report& report) { return report.reorders.num_quantizers; }},
      ComputedField{"num_quantizers_left",
                    [](const Report& report) { return report.reorders.num_left; }},
      Field{"why_not_checked", &Report::why_not_checked,
            "Why the model was not checked although that was asked for. '' otherwise."});
}

// Optimizes a model for machines like this one. It applies ONNX Runtime's full optimizations. Then
// it lets quantizers without blocks work in ONNX Runtime's blocked layout
// (deploy/remove_reorders.h). The outputs stay the same, bit for bit. The result cannot be
// quantized, planned or optimized any more, nor evaluated on another kind of machine. Throws Error;
// leaves nothing behind then.
OptimizeReport OptimizeForMachine(const OptimizeOptions& options);

// Returns the report as `optimize --json` writes it.
nlohmann::ordered_json ToJson(const OptimizeReport& report);

}  // namespace bitpress::tasks
