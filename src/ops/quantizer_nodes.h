// The operators that quantize a value in a running model: ours, AMD Quark's, and ONNX's Q/DQ pairs.
// Passes and reports ask here whether a model or a value is quantized already, and from which float
// value. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

// The keys of the metadata in a model that we wrote.
inline constexpr const char* kVersionMetadata = "bitpress.version";
inline constexpr const char* kConfigMetadata = "bitpress.config";    // QuantConfig as JSON
inline constexpr const char* kWeightsMetadata = "bitpress.weights";  // number of quantized weights
// Constants without packed codes, as a JSON object: name -> "mx6 as floats: ..." or "float: ...".
inline constexpr const char* kUnpackedMetadata = "bitpress.unpacked";

// Returns whether the node is bitpress::QuantizeDequantize_*, MXQuantizeDequantize,
// BFPQuantizeDequantize, (Extended|Dynamic)QuantizeLinear, (Extended)DequantizeLinear or one of
// their older names.
bool IsQuantizer(const graph::Node& node);

// Returns whether the node is bitpress::Unpack_*, which gives the values of a weight that is stored
// as codes.
bool IsUnpack(const graph::Node& node);

// Returns whether the node is one of ours that reads a weight's codes: bitpress::Unpack_*, or a
// product, convolution or lookup that computes from them.
bool ReadsCodes(const graph::Node& node);

// The beginning of the names of functions that widen codes: bitpress::Widen_*.
inline constexpr const char* kWidenPrefix = "Widen_";
// Returns whether a node widens codes for an operator that reads no narrower ones. It gives codes,
// not the values of a weight.
bool IsWidener(const graph::Node& node);
// Returns the node that gives `value`, if it is such a node.
std::optional<graph::Node> WidenerOf(const graph::Model& model, std::string_view value);

// Returns whether we wrote this model with quantized weights. Only its metadata tells weights
// stored as quantized floats from float ones.
bool HasQuantizedWeights(const graph::Model& model);

// Returns the number of nodes of each operator that quantizes or reads codes, bodies included:
// quantizers, unpackers, and operators on integers. It is empty for a float model.
std::map<std::string, size_t> QuantizedOperators(const graph::Model& model);

// Returns the float value that went into the quantizer which gives `value`, through both halves of
// a Q/DQ pair. Returns "" if the model stores codes in its place, as of a packed weight, and
// nothing if no quantizer gives `value`.
std::optional<std::string> QuantizedFrom(const graph::Model& model, std::string_view value);

// Returns whether the input already reads `value` quantized: from a quantizer, from its packed
// form, or as its quantized copy `<value>_quantized`.
bool ReadsQuantized(const graph::Model& model, const graph::Node& node, size_t input_index,
                    std::string_view value);

}  // namespace bitpress::ops
