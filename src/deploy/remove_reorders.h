// Pass remove-reorders: lets our elementwise quantizers work in ONNX Runtime's blocked layout.
//
// On a graph that ONNX Runtime has optimized for a machine, convolutions work on channel-blocked
// tensors (NCHWc, domain com.microsoft.nchwc). An operator that ONNX Runtime does not know gets
// NCHW, so each of our quantizers between two convolutions costs two passes over memory:
//
//   Conv -> ReorderOutput -> QuantizeDequantize_bf16 -> ReorderInput -> Conv
//
// A format without blocks quantizes each element alone and does not care about the order of them,
// so the two can go. NCHWc pads the channels with zeros to a whole block; these formats map 0 to
// itself, so the padding is what it was. Formats with blocks read neighbouring channels and keep
// their reorders.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::deploy {

struct RemovedReorders {
  size_t num_quantizers = 0;  // that read and give the blocked layout now
  size_t num_removed = 0;     // ReorderInput and ReorderOutput nodes that are gone
  // Quantizers, of all domains, that still stand behind a ReorderOutput: of blocked formats, or
  // read by a node that wants NCHW.
  size_t num_left = 0;
};

// The outputs of the model stay the same, bit for bit. A ReorderOutput that something else reads
// too stays for that; a quantizer whose result is read by anything but ReorderInput nodes, is a
// graph output, or is read by the body of an If or Loop, keeps its place. Reorders to and from NHWC
// (channels_last) and other operators than ours in between are left alone. Run again, it changes
// nothing. REQUIRES: the reorders are ONNX Runtime's, that is, all with the block of one machine.
RemovedReorders RemoveReorders(graph::Model& model);

// Names ReorderInput and ReorderOutput nodes after what they give. ONNX Runtime numbers them in an
// order that differs from run to run; so the same model has the same bytes.
void NameReorders(graph::Model& model);

}  // namespace bitpress::deploy
