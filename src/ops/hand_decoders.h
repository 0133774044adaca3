// Weights that are decoded by hand: whole numbers behind a Cast, a Sub of zero points and a Mul
// with scales, where ONNX has DequantizeLinear for it. Pure.
#pragma once

#include <optional>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

struct HandDecoder {
  std::string codes;        // a constant of integers of up to 8 bits
  std::string scales;       // a constant of floats
  std::string zero_points;  // a constant; "": none
  std::string weight;       // the floats, which an operator multiplies by
  graph::Use reader;        // of the weight
};

// Returns what a Cast is the beginning of; nothing for another node, and where no operator
// multiplies by the result.
std::optional<HandDecoder> HandDecoderAt(const graph::Model& model, const graph::Node& cast);

}  // namespace bitpress::ops
