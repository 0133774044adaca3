// The task `optimize`: a model as machines like this one run it fastest, the last step before it is
// deployed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "deploy/remove_reorders.h"
#include "graph/pass.h"

namespace bitpress::tasks {

struct OptimizeOptions {
  std::filesystem::path model;  // float or quantized
  std::filesystem::path
      output;  // not `model`: only that one runs elsewhere. Written as by Quantize
  graph::PassNames disabled_passes = {};  // see AllPasses; for bisecting
};

struct OptimizeReport {
  std::string machine;  // "ONNX Runtime 1.31.1, AVX-512"
  deploy::RemovedReorders reorders;
  uint64_t input_bytes = 0;  // of the files, external data included
  uint64_t output_bytes = 0;
};

// The last step before a model is deployed, for machines like this one: ONNX Runtime's full
// optimizations, then quantizers without blocks work in its blocked layout
// (deploy/remove_reorders.h). The outputs stay the same, bit for bit. What it wrote cannot be
// quantized, planned or optimized any more, nor evaluated on another kind of machine. Throws Error;
// nothing is left behind then.
OptimizeReport OptimizeForMachine(const OptimizeOptions& options);

}  // namespace bitpress::tasks
