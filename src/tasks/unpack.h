// The task `unpack`: turns a packed model into its equivalent in floats. Use it for tools that know
// only floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>

#include "base/fields.h"
#include "bitpress/progress.h"
#include "graph/model.h"

namespace bitpress::tasks {

struct UnpackOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // may be `model` itself; written as by Quantize
  bool drop_quantizers = false;  // removes the quantizers of activations, too
  graph::ExternalData external_data = graph::ExternalData::kIfNeeded;
  bool is_checked = true;  // the written model is loaded and run, see WriteModel
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

struct UnpackReport {
  size_t num_weights = 0;
  size_t num_quantizers = 0;
  uint64_t input_bytes = 0;  // size of the files, external data included
  uint64_t output_bytes = 0;
  std::string why_not_checked;
};
constexpr auto FieldsOf(const UnpackReport*) {
  using Report = UnpackReport;
  return std::tuple(
      Field{"input_bytes", &Report::input_bytes}, Field{"output_bytes", &Report::output_bytes},
      Field{"num_weights", &Report::num_weights},
      Field{"num_quantizers_dropped", &Report::num_quantizers, "Quantizers that were removed.",
            "num_quantizers"},
      Field{"why_not_checked", &Report::why_not_checked,
            "Why the model was not checked although that was asked for. '' otherwise."});
}

// Writes the float equivalent of a packed model: every weight as the floats that its codes mean.
// Throws Error; leaves nothing behind then.
UnpackReport Unpack(const UnpackOptions& options);

// Returns the report as `unpack --json` writes it.
nlohmann::ordered_json ToJson(const UnpackReport& report);

}  // namespace bitpress::tasks
