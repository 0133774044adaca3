// Lets ONNX Runtime compute a HardSwish, x * HardSigmoid(x), on codes of 8 bits (pass
// hard-swish-on-codes), also where it is written by a Clip. ONNX Runtime has no HardSigmoid on
// codes, so that it would decode x, compute two to four operators in float, and quantize again
// between every two convolutions of a MobileNetV3 or a PP-LCNet, which takes longer than these
// save.
//
// A HardSigmoid is a line that is cut off at 0 and 1, and codes saturate. So a DequantizeLinear
// reads the codes of x with a scale that is alpha times as large, and a QuantizeLinear with the
// zero point at beta gives codes from 0 to 1. ONNX Runtime computes both, and the Concat of one
// input between them that makes it do so, by a table of 256 codes.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::emit {

// Rewrites each HardSwish of codes with one scale that is quantized to the type of these codes. The
// factor of x is off by 1/256 at most. Returns the number of them.
size_t HardSwishOnCodes(graph::Model& model);

}  // namespace bitpress::emit
