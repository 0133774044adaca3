// ONNX Runtime as an optimizer of models: it prepares an exported model, or shows the graph that a
// session would run.
//
// OptimizeBasic cleans an exported model up with the "basic" optimizations, which do not depend on
// the machine. It folds constants, removes shape arithmetic and identities, folds BatchNorm, Pad
// and following Mul and Add into Conv, and joins MatMul and Add to Gemm. The result consists of
// standard operators, and of operators that the model held already.
//
// It leaves QuantizeLinear, DequantizeLinear and the nodes around them alone on purpose: a model
// that is quantized in part stays so, and its constant weights are not turned back into float. It
// leaves equal constants alone, too, because one shared by several nodes would have another node's
// name. ONNX Runtime does not remove nodes whose outputs nobody reads, adds imports of operator
// sets that are not used, and loses value_info. What it does to FLOAT16 models is undone by
// half_casts.h.
#pragma once

#include <filesystem>
#include <functional>

#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::runtime {

// Reads `model` and writes the cleaned-up model to `out`, whose folder must exist. Initializers go
// to
// "<out>.data" beside it if they do not fit into one file, or were external in `model`. Operators
// of com.amd.quark, com.vai.quantize and bitpress need the operator library: `operator_library` is
// SessionOptions::operator_library. Throws Error(kIo), Error(kInvalidModel), Error(kRuntime) as
// Session, and Error(kInvalidArgument) if `out` would overwrite a part of `model`. Nothing is left
// behind then.
void OptimizeBasic(const std::filesystem::path& model, const std::filesystem::path& out,
                   const std::filesystem::path& operator_library = {});

// Writes the whole graph that ONNX Runtime makes of `model` on this machine at that level. Files
// and errors are as in OptimizeBasic.
//
// With kAll it is the graph of a session with default options: operators are fused, and on
// processors that have it there is the channel-blocked layout NCHWc (domain com.microsoft.nchwc),
// whose block is as wide as this processor's registers. The result gives the outputs of `model` bit
// for bit. Another machine or another ONNX Runtime may refuse it or, worse, run it. kExtended has
// no such layout: operators on integers are there, in the dimensions that ONNX gives them. Its
// result need not give the outputs of `model` bit for bit.
void OptimizeAs(Optimization level, const std::filesystem::path& model,
                const std::filesystem::path& out,
                const std::filesystem::path& operator_library = {});

// Returns the model that `optimize(from, to)`, one of the functions above, makes of a file, with
// its lists in an order that is the same on every system. Uses a temporary folder, which is gone at
// the end. Throws Error naming the file.
graph::Model LoadOptimized(const std::filesystem::path& model,
                           const std::function<void(const std::filesystem::path& from,
                                                    const std::filesystem::path& to)>& optimize);

}  // namespace bitpress::runtime
