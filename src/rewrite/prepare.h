// Prepare: a float model as its file has it -> the model that plans are made for. Every task on a
// float model begins with it.
#pragma once

#include <filesystem>
#include <optional>

#include "graph/model.h"
#include "plan/equalization.h"
#include "rewrite/equalize.h"

namespace bitpress::rewrite {

// Whether a model is cleaned up before it is planned.
enum class Preparation {
  // ONNX Runtime's basic optimizations: constants folded, BatchNorm folded into Conv, dead nodes
  // gone. What exporters write
  // is quantizable then.
  kOptimize,
  // Only Constant nodes become initializers: for models with operators that this machine does not
  // have.
  kAsIs,
};

// Loads a model, checks it and makes it ready to be planned: cleaned up, equalized if wished,
// shapes inferred. The same file and options give the same model, so that plans and calibrations
// fit it. Uses a temporary folder, which is gone at the end. Throws Error naming the file.
graph::Model Prepare(const std::filesystem::path& model,
                     Preparation preparation = Preparation::kOptimize,
                     const std::optional<plan::EqualizeOptions>& equalization = {},
                     EqualizeReport* report = nullptr);

}  // namespace bitpress::rewrite
