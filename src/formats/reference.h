// The specification of every format: scalar, readable, slow. Kernels (src/kernels) equal it bit for
// bit, and tests compare them with it. Arithmetic is in double, where every step but the one
// rounding to the format is exact, and independent of denormals-are-zero modes.
//
// Special values: NaN and infinity follow the spec's SpecialRule, zeros its ZeroRule. Finite values
// beyond the range saturate to the largest code. float32 subnormals are ordinary values unless
// flush_subnormals says otherwise. The value of a finite code saturates at the largest float32. An
// all-zero block stays zero. A short last block behaves as if padded with zeros.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::formats::ref {

// --- One element
// -----------------------------------------------------------------------------------------------------

// Returns the code of the value nearest to x, ties to even, saturating at the largest finite value.
// Infinity and NaN take the type's codes if it has them (E4M3 turns infinity into NaN).
// REQUIRES: for types without NaN, x is not NaN.
uint32_t EncodeFloat(double x, ElementType type);
double DecodeFloat(uint32_t code, ElementType type);

// Returns x rounded to a whole number, for any finite x.
double RoundToInteger(double x, RoundingMode mode);

// Compute ONNX QuantizeLinear and DequantizeLinear for one element: saturate(round(x / scale) +
// zero_point) with the quotient rounded to float32, and (q - zero_point) * scale with the
// difference and the product rounded to float32. NaN takes the zero point, that is the value 0.
// REQUIRES: scale is positive and finite.
int64_t QuantizeInteger(float x, float scale, int64_t zero_point, CodeRange range,
                        RoundingMode mode = RoundingMode::kHalfToEven);
float DequantizeInteger(int64_t code, float scale, int64_t zero_point);

// --- One element of a block format
// ----------------------------------------------------------------------------

// Returns the number of an element: the value of a float, and of other elements the code as a whole
// number, which counts steps of 2^(2 - element_bits).
double ElementOf(const FormatSpec& spec, uint32_t code);

// Returns the code nearest to the finite x at a scale (the block's times the sub-block's), by the
// spec's rounding. Numbers beyond the range saturate.
uint32_t EncodeElement(const FormatSpec& spec, double x, double scale);

// --- One block
// -------------------------------------------------------------------------------------------------------

// A quantized block. Value i is the element of codes[i] times scale * 2^-shifts[i /
// sub_block_size].
struct BlockCodes {
  double scale = 1;
  bool is_nan = false;          // the whole block is NaN (the code of its scale is all ones)
  std::vector<int> shifts;      // one a sub-block; empty if the format has no sub-blocks
  std::vector<uint32_t> codes;  // one an element, in the low element_bits
};

// Returns the scale of a block after spec.scale_choice. NaN and infinity are ignored. A block of
// zeros takes the spec's smallest. kMse takes errors in units of the floor's scale, squares and
// adds them in float32 in the order of the elements, so that kernels can choose the same.
double ChooseScale(const FormatSpec& spec, std::span<const float> block);

// Quantizes a block, and writes the values of one. A value that neither codes nor rule can hold
// (infinity in MXINT8) makes the block NaN. REQUIRES: spec.is_blocked(), x.size() <= block_size,
// y.size() == block.codes.size().
BlockCodes QuantizeBlock(const FormatSpec& spec, std::span<const float> x);
void DequantizeBlock(const FormatSpec& spec, const BlockCodes& block, std::span<float> y);

// Returns the code of a block's scale as it is stored (formats/block_scale.h), all ones for NaN.
uint32_t ScaleCode(const FormatSpec& spec, const BlockCodes& block);

// --- Tensors
// ---------------------------------------------------------------------------------------------------------

// Quantizes and dequantizes one block, or each element if the format has no blocks. NaN and
// infinity that the rule lets pass come out unchanged. x and y may be the same memory. REQUIRES:
// x.size() == y.size().
void FakeQuantizeBlock(const FormatSpec& spec, std::span<const float> x, std::span<float> y);

// Quantizes and dequantizes a tensor seen as [outer, axis_length, inner] with blocks along the
// middle dimension. x and y may be the same memory. REQUIRES: x.size() == y.size() == outer *
// axis_length * inner.
void FakeQuantize(const FormatSpec& spec, std::span<const float> x, std::span<float> y,
                  int64_t outer, int64_t axis_length, int64_t inner);

}  // namespace bitpress::formats::ref
