// The arithmetic of block and element formats in standard ONNX operators, bit for bit that of the
// scalar reference (formats/reference.h), from operator set 13 on.
//
// Everything is float32 and exact but for the one rounding to the format: scales are handled as the
// powers of two they are, never as exponents, and a value v is rounded by
// `anchor - (anchor - v)`, where the anchor is so much larger that the difference in brackets keeps
// the wanted bits only and float32's own rounding, half to even, does the work.
//
// ONNX Runtime has ways that the body must get by with:
//  - Where(c, a, b) turns an a of -0 into +0 on the CPU, so values whose zeros have signs are the
//    b of every Where, and conditions are made without Not (an optimizer swaps the two behind it);
//  - x + 0 is taken out by an optimizer although it makes +0 of -0.
// It must not run with denormals as zero (session.set_denormal_as_zero, off by default).
#pragma once

#include <string>

#include "emit/function_body.h"
#include "formats/format_spec.h"

namespace bitpress::emit {

// Each element of `x` alone. REQUIRES: spec is a row of the table with Family::kFloat; the body's
// numbers have no dimensions.
std::string QuantizeElements(FunctionBody& body, const formats::FormatSpec& spec,
                             const std::string& x);

// `blocks` is [blocks, block_size, inner], or, for formats with sub-blocks, [blocks, block_size /
// sub_block_size, sub_block_size, inner], and the result has the same shape; `flat_dims` is the
// first of the two in any case. REQUIRES: spec is a row of the table or bfp(...), blocked; the
// body's numbers have as many dimensions as `blocks`.
std::string QuantizeBlocks(FunctionBody& body, const formats::FormatSpec& spec,
                           const std::string& blocks, const std::string& flat_dims);

}  // namespace bitpress::emit
