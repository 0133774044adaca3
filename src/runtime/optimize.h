// ONNX Runtime as an optimizer of models.
//
// OptimizeBasic cleans an exported model up with its "basic" optimizations, the ones that do not
// depend on the machine: constants folded, shape arithmetic and identities gone, BatchNorm and
// following Mul and Add folded into Conv, Pad into Conv, MatMul and Add joined to Gemm.
// The result consists of standard operators (and of what the model held already).
//
// Left alone on purpose: QuantizeLinear, DequantizeLinear and what stands around them (a model that
// is quantized in part stays so; its constant weights are not turned back into float), and equal
// constants (sharing one between nodes would give it another node's name).
// Not done here, because ONNX Runtime does not: nodes whose outputs nobody reads stay, the list of
// imported operator sets grows by domains that are not used, and value_info is lost.
#pragma once

#include <filesystem>
#include <functional>

#include "graph/model.h"
#include "runtime/session.h"

namespace bitpress::runtime {

// Reads `model` and writes the cleaned-up model to `out`, whose folder must exist; if the
// initializers do not fit into one file, or were external in `model`, they go to "<out>.data"
// beside it. Throws Error(kIo), Error(kInvalidModel), Error(kRuntime) as Session, and
// Error(kInvalidArgument) if `out` would overwrite a part of `model`; nothing is left behind then.
// Operators of com.amd.quark, com.vai.quantize and bitpress need the operator library, as in
// Session: `operator_library` is SessionOptions::operator_library.
void OptimizeBasic(const std::filesystem::path& model, const std::filesystem::path& out,
                   const std::filesystem::path& operator_library = {});

// Writes the graph that ONNX Runtime makes of `model` on this machine at that level; nothing is
// left out. Files and errors as in OptimizeBasic.
//
// kAll is what a session runs that is opened with default options: fused operators, and on
// processors that have it the channel-blocked layout NCHWc (domain com.microsoft.nchwc), whose
// block is as wide as this processor's registers. The result gives the outputs of `model` bit for
// bit; another machine or another ONNX Runtime may refuse it or, worse, run it. kExtended has no
// such layout: operators on integers are there, in the dimensions that ONNX gives them. It need not
// give the outputs of `model` bit for bit.
void OptimizeAs(Optimization level, const std::filesystem::path& model,
                const std::filesystem::path& out,
                const std::filesystem::path& operator_library = {});

// Returns the model that `optimize(from, to)`, one of the functions above, makes of a file. Uses a
// temporary folder, which is gone at the end. Throws Error naming the file.
graph::Model LoadOptimized(const std::filesystem::path& model,
                           const std::function<void(const std::filesystem::path& from,
                                                    const std::filesystem::path& to)>& optimize);

}  // namespace bitpress::runtime
