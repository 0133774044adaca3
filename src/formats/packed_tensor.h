// The stored bytes of a quantized tensor, and the scalar reference that makes bytes from values and
// values from bytes. kernels/pack_tensor.h is the fast twin. A tensor is seen as [outer, axis,
// inner] with blocks along the middle dimension, as in ref::FakeQuantize. Plain data, pure
// functions, thread-safe. Other rooms write the bytes into a model, with operators that decode them
// there and embed the tables below.
//
// A tensor has up to four parts:
//   codes      one code an element in row-major order. Up to 8 bits: element_bits each, packed as
//              in formats/pack.h. 9 to 16 bits in blocks: the top 8 bits of each code (sign and 7
//              magnitude bits), a byte each. fp16 and bf16: the 16-bit code, little-endian.
//   low_codes  9 to 16 bits in blocks: the low element_bits - 8 bits of each code, packed likewise.
//   scales     one byte a block, in order [outer, block, inner]: the code of the shared scale
//              (formats/block_scale.h).
//   shifts     formats with sub-blocks: sub_block_shift_bits bits a sub-block, packed likewise, in
//              order [outer, sub_block, inner].
//
// The value of an element is table[code] * scale * 2^-shift in float32 arithmetic, with the scale
// of its block. For 9 to 16 bits it is (table[top] + sign * low) * scale * 2^-shift, with sign = -1
// if top >= 128, else 1. scale * 2^-shift is one float32. Every product is exact for the bytes that
// PackTensor writes.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::formats {

// The parts, in the order in which models hold them.
enum class PackedPart { kCodes, kLowCodes, kScales, kShifts };

// Something for each part: sizes in bytes (0 if a format has no such part), or views of somebody
// else's bytes.
template <typename T>
struct PackedParts {
  T codes = {}, low_codes = {}, scales = {}, shifts = {};

  T& operator[](PackedPart part) {
    switch (part) {
      case PackedPart::kCodes:
        return codes;
      case PackedPart::kLowCodes:
        return low_codes;
      case PackedPart::kScales:
        return scales;
      default:
        return shifts;
    }
  }
  T total() const { return codes + low_codes + scales + shifts; }
  PackedParts<size_t> sizes() const {
    return {codes.size(), low_codes.size(), scales.size(), shifts.size()};
  }
  bool operator==(const PackedParts&) const requires std::equality_comparable<T>
  = default;
};
using PackedSizes = PackedParts<size_t>;
using PackedView = PackedParts<std::span<const uint8_t>>;
using PackedSpans = PackedParts<std::span<uint8_t>>;

// The bytes of a tensor.
struct PackedTensor {
  std::vector<uint8_t> codes, low_codes, scales, shifts;

  PackedTensor() = default;
  // Makes zero bytes of these sizes.
  explicit PackedTensor(const PackedSizes& sizes)
      : codes(sizes.codes),
        low_codes(sizes.low_codes),
        scales(sizes.scales),
        shifts(sizes.shifts) {}
  PackedView view() const { return {codes, low_codes, scales, shifts}; }
  PackedSpans spans() { return {codes, low_codes, scales, shifts}; }
  bool operator==(const PackedTensor&) const = default;
};

// Returns why tensors of that format have no packed form, as a clause ("its codes have 23 bits,
// ..."); empty if they have one. REQUIRES: Validate(spec) passes.
std::string WhyNotPackable(const FormatSpec& spec);

// Returns the parts that a format has. REQUIRES: the format is packable.
std::vector<PackedPart> PartsOf(const FormatSpec& spec);
// Returns whether sub-blocks lower the exponents of blocks.
bool HasShifts(const FormatSpec& spec);

// Return the bits of a code in the plane `codes` (element_bits, or 8 if there are two planes) and
// in the plane `low_codes` (0 if there is one plane). REQUIRES: the format is packable.
int CodePlaneBits(const FormatSpec& spec);
int LowCodePlaneBits(const FormatSpec& spec);

// Returns the bytes of each part of a tensor. Throws Error(kInvalidArgument) if the format is not
// packable, a dimension is negative or the number of bytes does not fit. Dimensions may be zero.
PackedSizes SizesOf(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner);

// Throws Error(kInvalidArgument) unless a tensor of that shape has `num_elements` elements and
// parts of these sizes. Throws as SizesOf, too.
void CheckPackedSizes(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                      size_t num_elements, const PackedSizes& found);

// Returns the value of every code of the plane `codes`, 2^CodePlaneBits entries. Floating-point
// elements: the element's own value (NaN and infinity if the type has them). Two's complement and
// sign-magnitude elements: the code as a whole number, -0 for the code of -0. Two planes: the whole
// number with the low plane's bits zero, that is +-(7 magnitude bits << LowCodePlaneBits). Throws
// Error(kInvalidArgument) for fp16, bf16 and formats that are not packable.
std::vector<float> ElementTable(const FormatSpec& spec);

// Returns the factor of every scale byte in the units of ElementTable: the scale for floating-point
// elements, scale * 2^(2 - element_bits) for integers, NaN for the code of NaN and for bytes above
// it. The smallest powers of two are float32 subnormals, and none is zero. Decoding them needs a
// processor that does not treat denormals as zero. Throws Error(kInvalidArgument) if the format has
// no blocks or is not packable.
std::array<float, 256> ScaleTable(const FormatSpec& spec);

// Throws the Error(kInvalidArgument) for an element that has no exact code. `index` counts elements
// of the tensor in row-major order.
[[noreturn]] void FailNotRepresentable(const FormatSpec& spec, size_t index, float value);

namespace ref {

// An encoder and decoder for one block, of which the functions below are made. A block of a format
// without blocks is any number of elements, and its scale and shifts mean nothing. Keeps a
// reference to the spec. REQUIRES: the format is packable.
class BlockCodec {
 public:
  explicit BlockCodec(const FormatSpec& spec);

  // Encodes the values. Returns the index of the first value that has no exact code, or y.size() if
  // there is none. Codes have element_bits. There is one shift a sub-block, and none if the format
  // has no sub-blocks. REQUIRES: y.size() == codes.size() <= block_size.
  size_t Encode(std::span<const float> y, std::span<uint16_t> codes, uint8_t& scale,
                std::span<uint8_t> shifts) const;
  // Writes the values of the codes. REQUIRES: y.size() == codes.size().
  void Decode(std::span<const uint16_t> codes, uint8_t scale, std::span<const uint8_t> shifts,
              std::span<float> y) const;

 private:
  int ShiftOf(std::span<const float> sub_block, double scale) const;
  size_t EncodeAt(double scale, std::span<const float> y, std::span<uint16_t> codes,
                  std::span<uint8_t> shifts) const;
  float Value(uint32_t code, uint8_t scale, int shift) const;

  const FormatSpec& spec_;
  size_t sub_block_size_;
  std::array<float, 256> scales_;
};

// Returns the bytes of a tensor whose values y the format represents exactly: decoding them gives y
// bit for bit, -0 included. Each block gets the smallest scale with which nothing saturates, and
// each sub-block the largest shift (a sub-block of zeros the largest of all). So equal values give
// equal bytes, whatever scale choice they were quantized with. Output of FakeQuantize qualifies but
// for the cases in docs/formats.md, Storage. Throws Error(kInvalidArgument) with the lowest index
// of an element that is not representable: not quantized, NaN, infinity, a value that was saturated
// at the largest float32, or -0 if codes have none. Throws also unless y.size() == outer * axis *
// inner, and as SizesOf.
PackedTensor PackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                        std::span<const float> y);

// Writes the values of packed bytes, as the top of this file defines them, for any bytes. A block
// whose scale is the code of NaN is NaN, and products beyond the range of float32 are infinite.
// Throws Error(kInvalidArgument) if a part has another size than SizesOf says or unless y.size() ==
// outer * axis * inner, and as SizesOf.
void UnpackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const PackedView& packed, std::span<float> y);

}  // namespace ref
}  // namespace bitpress::formats
