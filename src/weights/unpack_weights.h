// Passes that take a quantized model back to floats: one decodes its packed weights, the other
// drops its quantizers. `bitpress unpack` runs them.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "graph/model.h"

namespace bitpress::weights {

// Pass unpack-weights: replaces every `bitpress.Unpack_<format>` node by an initializer with the
// values that it gives, and removes its function. Products with packed weights become products of
// floats first. Weights of types that ONNX Runtime has no kernels for become floats, too
// (decode_standard.h). The values are computed while the model is
// written; `pool` is used until then. Outputs stay the same, bit for bit. Returns the number of
// weights. Throws Error(kInvalidModel) naming the node if it cannot be decoded.
size_t UnpackWeights(graph::Model& model, ThreadPool& pool, const ProgressSink& progress = {});

// Pass drop-quantizers: takes our activation quantizers (bitpress::QuantizeDequantize_<format>) and
// their functions out of the main graph. Returns their number.
size_t DropQuantizers(graph::Model& model);

}  // namespace bitpress::weights
