// Statistics of activations, gathered once for several configurations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "bitpress/export.h"
#include "bitpress/progress.h"
#include "bitpress/quantize.h"
#include "bitpress/samples.h"

namespace bitpress {

struct CalibrateOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // a .bpc file
  // Whose quantized activations are watched. Nothing: every float activation.
  std::optional<Configuration> configuration;
  Samples samples;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

// Runs the samples through the model and writes statistics of its activations. Returns the number
// of samples. Throws Error; leaves nothing behind then.
BITPRESS_API uint64_t Calibrate(const CalibrateOptions& options);

// Adds up files of Calibrate for one model. The result is exactly that of one pass over all
// samples, in whatever order; `output` may be one of the files. Returns the number of samples.
// Throws Error.
BITPRESS_API uint64_t MergeCalibrations(const std::vector<std::filesystem::path>& files,
                                        const std::filesystem::path& output);

}  // namespace bitpress
