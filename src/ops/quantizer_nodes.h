// Recognizes the operators that quantize a value in a running model: ours, AMD Quark's, and ONNX's
// Q/DQ pairs. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

// Metadata of a model that we wrote.
inline constexpr const char* kVersionMetadata = "bitpress.version";
inline constexpr const char* kConfigMetadata = "bitpress.config";    // QuantConfig as JSON
inline constexpr const char* kWeightsMetadata = "bitpress.weights";  // how many are quantized
// Constants without packed codes, as a JSON object: name -> "mx6 as floats: ..." or "float: ...".
inline constexpr const char* kUnpackedMetadata = "bitpress.unpacked";

// bitpress::QuantizeDequantize_*, MXQuantizeDequantize, BFPQuantizeDequantize,
// (Extended|Dynamic)QuantizeLinear, (Extended)DequantizeLinear and their older names: whatever
// reads or gives a value that is quantized here.
bool IsQuantizer(const graph::Node& node);

// bitpress::Unpack_*, which gives the values of a weight that is stored as codes.
bool IsUnpack(const graph::Node& node);

// Whether we wrote this model with quantized weights: nothing else in it tells them from float
// ones.
bool HasQuantizedWeights(const graph::Model& model);

// If `value` comes out of a quantizer: the float value that went into it (through both halves of a
// Q/DQ pair), or "" where codes are stored in the model (a packed weight included).
std::optional<std::string> QuantizedFrom(const graph::Model& model, std::string_view value);

// Whether the input already reads what a quantizer of `value`, its packed form, or its quantized
// copy `<value>_quantized`, gives.
bool ReadsQuantized(const graph::Model& model, const graph::Node& node, size_t input_index,
                    std::string_view value);

}  // namespace bitpress::ops
