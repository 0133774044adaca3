// Pass remove-reorders: lets our elementwise quantizers work in ONNX Runtime's blocked layout. It
// is for models that ONNX Runtime has optimized for one machine (`bitpress optimize`).
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

// The results of RemoveReorders.
struct RemovedReorders {
  size_t num_quantizers = 0;  // quantizers that work in the blocked layout now
  size_t num_removed = 0;     // ReorderInput and ReorderOutput nodes that were removed
  // Quantizers, of all domains, that still stand behind a ReorderOutput: their format has blocks,
  // or a node that needs NCHW reads them.
  size_t num_left = 0;
};

// Removes the reorders around our elementwise quantizers. The outputs of the model stay the same,
// bit for bit. A second run changes nothing.
//
// A ReorderOutput with another reader stays for that reader. A quantizer keeps its place if
// anything but a ReorderInput reads it: another node, the body of an If or Loop, or the caller, who
// reads the graph's outputs. Reorders to and from NHWC (channels_last) and operators that are not
// ours are left alone.
// REQUIRES: ONNX Runtime made the reorders, so that all have the block size of one machine.
RemovedReorders RemoveReorders(graph::Model& model);

// Names ReorderInput and ReorderOutput nodes after their outputs. ONNX Runtime numbers them in an
// order that differs from run to run. With these names the same model has the same bytes.
void NameReorders(graph::Model& model);

}  // namespace bitpress::deploy
