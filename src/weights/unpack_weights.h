// Back to floats: the decoded form of packed weights, and a model without quantizers.
#pragma once

#include <cstddef>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "graph/model.h"

namespace bitpress::weights {

// Pass unpack-weights: replaces every `bitpress.Unpack_<format>` node by an initializer with the
// values it gives, computed while the model is written, and removes its function. Outputs stay the
// same, bit for bit. Returns the number of weights. `pool` is used until the model
// is written. Throws Error(kInvalidModel) naming the node if the bytes are not what it needs.
size_t UnpackWeights(graph::Model& model, ThreadPool& pool, const ProgressSink& progress = {});

// Pass drop-quantizers: takes our activation quantizers (bitpress::QuantizeDequantize_<format>) and
// their functions out of the main graph. Returns their number.
size_t DropQuantizers(graph::Model& model);

}  // namespace bitpress::weights
