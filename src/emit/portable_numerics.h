// The arithmetic of block and element formats in standard ONNX operators. portable_functions.h uses
// it to write the bodies of its functions. The results are those of the scalar reference
// (formats/reference.h), bit for bit, from operator set 13 on.
//
// Everything is float32, and exact except for the one rounding to the format. Scales are handled as
// powers of two, never as exponents. A value v is rounded by `anchor - (anchor - v)`. The anchor is
// so much larger than v that the difference in brackets keeps only the wanted bits. The rounding of
// float32 itself, half to even, does the work.
//
// The body avoids two habits of ONNX Runtime:
//  - Where(c, a, b) turns an a of -0 into +0 on the CPU. So values whose zeros have signs are the b
//    of every Where. Conditions are made without Not, because an optimizer swaps a and b behind it.
//  - An optimizer removes x + 0, although it makes +0 of -0.
// The body must not run with denormals as zero (session.set_denormal_as_zero, off by default).
#pragma once

#include <string>

#include "emit/function_body.h"
#include "formats/format_spec.h"

namespace bitpress::emit {

// Quantizes and dequantizes each element of `x` alone. REQUIRES: spec.is_float(); the body's
// numbers have no dimensions.
std::string QuantizeElements(FunctionBody& body, const formats::FormatSpec& spec,
                             const std::string& x);

// Quantizes and dequantizes blocks. `blocks` is [blocks, block_size, inner]. For formats with
// sub-blocks it is [blocks, block_size / sub_block_size, sub_block_size, inner]. The result has the
// same shape. `flat_dims` is always the first of the two shapes. REQUIRES: spec is a row of the
// table or bfp(...), blocked; the body's numbers have as many dimensions as `blocks`.
std::string QuantizeBlocks(FunctionBody& body, const formats::FormatSpec& spec,
                           const std::string& blocks, const std::string& flat_dims);

}  // namespace bitpress::emit
