// FLOAT16 models in ONNX Runtime's optimizer. Where a processor has no kernel for FLOAT16, ONNX
// Runtime computes an operator in FLOAT between two Casts of its own, and writes these Casts into
// the optimized model. Weights would lie behind Casts then, and would not be found. It also merges
// its Casts with those of the model, after which the original types cannot be told. No option
// switches that off.
//
// ProtectHalfCasts goes before the optimizer, RestoreHalf behind it.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::runtime {

// Puts a node that ONNX Runtime cannot see through at each Cast of the model from or to FLOAT16, so
// that ONNX Runtime merges the Cast with none of its own, and where a body reads a FLOAT16 value of
// the graph around it, so that its Casts in both have different names. The node is kObservePass of
// observers.h. Casts of constants have none: they are folded. Returns the number of nodes.
size_t ProtectHalfCasts(graph::Model& model);

// Removes the nodes of ProtectHalfCasts and the Casts that ONNX Runtime inserted from the optimized
// model: values have the names and types again that they have in `given`, the model before it was
// optimized. Casts of `given` stay. Returns the number of Casts that went.
size_t RestoreHalf(const graph::Model& given, graph::Model& optimized);

// Takes the FLOAT16 nodes out of ONNX Runtime's sight whose operators ONNX defines by functions of
// others, such as PRelu. Where a processor has no kernel for them, ONNX Runtime puts the functions
// in their place, merges their casts, and writes a model that mixes FLOAT and FLOAT16. Returns the
// number of nodes. Call it before ProtectHalfCasts.
size_t ProtectHalfFunctions(graph::Model& model);

// Puts the nodes back. `given` is the model before ProtectHalfFunctions. Call it behind
// RestoreHalf.
void RestoreHalfFunctions(const graph::Model& given, graph::Model& optimized);

}  // namespace bitpress::runtime
