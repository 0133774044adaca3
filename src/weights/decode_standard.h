// Pass decode-standard: weights whose types ONNX Runtime has no DequantizeLinear for become floats,
// whoever wrote them. The check runs such models with it, and `bitpress unpack` writes them.
#pragma once

#include <cstddef>
#include <functional>

#include "base/thread_pool.h"
#include "graph/model.h"

namespace bitpress::weights {

// Replaces each standard DequantizeLinear of constants with codes of FLOAT4E2M1 or scales of
// FLOAT8E8M0, that gives FLOAT, by an initializer with its values. Scales may come from a
// DequantizeLinear of FLOAT8E4M3FN constants, as those of NVFP4 do. ONNX Runtime 1.31 has kernels
// for none of them. The values are computed while the model is written or run, and `step` is called
// for each; `pool` is used until then. Returns the number of weights. Throws Error(kInvalidModel)
// naming the node if dimensions of its scales do not fit.
size_t DecodeStandard(graph::Model& model, ThreadPool& pool, const std::function<void()>& step);

}  // namespace bitpress::weights
