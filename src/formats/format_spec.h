// The table of number formats, one row a format. Everything that depends on a format (reference,
// kernels, operators, plans, reports) reads the row. For example:
//
//   const FormatSpec spec = FindFormat("mxfp4_e2m1");
//   const double bits = spec.BitsPerElement();  // 4.25
//
// Plain data. All functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace bitpress::formats {

// The type of one stored code, of an element or of a block's scale. Names are ONNX's where ONNX has
// one.
enum class ElementType {
  kInt2,
  kUInt2,
  kInt3,
  kUInt3,
  kInt4,
  kUInt4,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat6E2M3,
  kFloat6E3M2,
  kFloat4E2M1,
  kSignMagnitude,  // sign bit above element_bits - 1 magnitude bits; ONNX has no such type
  kPowerOfTwo,     // biased exponent of scale_bits, the top one is NaN; E8M0 if it has 8 bits
};

// The numbers that the codes of a type stand for.
enum class ElementKind { kUnsigned, kTwosComplement, kSignMagnitude, kFloat, kPowerOfTwo };

// The rounding of ties. Half to even is the default everywhere. Quark numbers the modes 0 (half
// away from zero), 1 (half up), 2 (half to even).
enum class RoundingMode { kHalfToEven, kHalfAwayFromZero, kHalfUp };

// The rule by which the shared exponent of a block follows from its largest magnitude amax. emax is
// the exponent of the largest element value. A sub-block lowers the shared exponent as far as the
// same rule allows for the sub-block's own largest magnitude; with kMse as far as floor allows.
enum class ScaleChoice {
  kFloor,  // floor(log2 amax) - emax: OCP MX 1.0 section 6.3 and Quark; the top of the block may
           // saturate
  kCeil,   // the smallest exponent with which amax does not saturate
  kEven,   // floor after rounding amax, half up, to the element's mantissa bits: an amax that would
           // round up to the next power of two does not saturate (called EVEN by Quark and torchao)
  kMse,    // the one of floor - 1, floor and floor + 1 with the least squared error; the lowest on
           // ties
};

// The sign of a value that becomes zero.
enum class ZeroRule {
  kKeepSign,      // -0 for negative values: float and sign-magnitude codes
  kPositive,      // +0: two's complement codes have no -0
  kQuarkNearest,  // Quark's integer path in mode 2: -0 stays, other negative values become +0
};

// The treatment of NaN and infinity.
enum class SpecialRule {
  kPass,  // they pass through unchanged; the rest of the block is quantized as if they were absent
  kNanBlock,  // one of them makes the whole block NaN (shared exponent 0xFF of MX4/6/9)
  kSaturate,  // infinity becomes the largest value, NaN stays: ONNX's table for float8 with
              // saturate
};

// The bits of a floating-point element. Values are (-1)^s * 2^(E - bias) * 1.M, subnormals at
// E = 0.
struct FloatLayout {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  int max_exponent = 0;  // unbiased exponent of the largest finite value
  double max_value = 0;  // largest finite magnitude
  bool has_infinity = false;
  bool has_nan = false;
};

// What is known of an element type: one row a type.
struct ElementTraits {
  std::string_view name;  // in ONNX's spelling: "FLOAT8E4M3FN", "INT4", "FLOAT6E2M3"
  ElementKind kind = ElementKind::kUnsigned;
  int bits = 0;  // of a code; 0: the format says it
  FloatLayout layout = {};
};
const ElementTraits& TraitsOf(ElementType type);

// A number format: one row of the table, or one with parameters or attributes of a user. Formats
// are of four kinds:
//   integers          int8: code = saturate(round(x / scale) + zero_point), with scales chosen by
//                     calibration
//   floats            fp16, bf16, fp8_*: each element is encoded alone
//   Microscaling      OCP MX 1.0: a block of elements shares one scale
//   block floats      a block of sign-magnitude integers shares one exponent, which sub-blocks may
//                     lower (MX4/6/9)
struct FormatSpec {
  std::string name;
  ElementType element_type = ElementType::kFloat16;
  int element_bits = 16;  // bits of one code
  int block_size = 0;     // elements that share a scale along the axis; 0: not blocked
  ElementType scale_type = ElementType::kPowerOfTwo;  // of the scales of blocks
  int scale_bits = 0;      // bits of a stored scale (8: E8M0); 0: not blocked
  int sub_block_size = 0;  // elements that share a micro-exponent; 0: none
  // Bits of the micro-exponent: a sub-block lowers the exponent by at most 2^bits - 1.
  int sub_block_shift_bits = 0;
  RoundingMode rounding = RoundingMode::kHalfToEven;
  ScaleChoice scale_choice = ScaleChoice::kFloor;
  ZeroRule zero_rule = ZeroRule::kKeepSign;
  SpecialRule special_rule = SpecialRule::kPass;
  bool flush_subnormals = false;  // float32 subnormals become zero (MX4/6/9)
  // The shared exponent stays storable in scale_bits. Quark's MX operator does not limit it.
  bool limit_shared_exponent = true;
  // The ONNX type of the codes, if there is one. ONNX has no integers of 3 bits: their codes are
  // INT4 and UINT4 in a narrower range.
  DataType onnx_type = DataType::kUndefined;
  std::string quark_name;  // element_dtype / preset word in Quark's API, "" if it has none
  // The magnitude that the largest value of a tensor with a scale of its own gets, which is divided
  // by that scale before it is quantized. 0: its tensors have no such scale.
  double scaled_maximum = 0;

  ElementKind kind() const { return TraitsOf(element_type).kind; }
  bool has_float_elements() const { return kind() == ElementKind::kFloat; }
  bool is_blocked() const { return block_size > 0; }
  bool is_integer() const {
    return !is_blocked() &&
           (kind() == ElementKind::kUnsigned || kind() == ElementKind::kTwosComplement);
  }
  bool is_float() const { return !is_blocked() && has_float_elements(); }
  bool is_block_float() const { return kind() == ElementKind::kSignMagnitude; }
  // Returns whether the ONNX type of the codes holds more codes than the format has. Operators of
  // ONNX do not saturate where the format does then.
  bool has_wider_onnx_type() const {
    return static_cast<int>(ElementBits(onnx_type)) > element_bits;
  }
  // Returns whether the scales of its blocks only move exponents, so that elements times scales are
  // exact and sums of products can be taken in integers.
  bool has_exponent_scales() const {
    return is_blocked() && scale_type == ElementType::kPowerOfTwo;
  }
  // Returns the stored bits for each element of a full block: codes, shared exponent and
  // micro-exponents.
  double BitsPerElement() const;
  bool operator==(const FormatSpec&) const = default;
};

// The largest block that is accepted: far above any format in use, and small enough for a buffer a
// thread.
inline constexpr int kMaxBlockSize = 1 << 16;

// Returns all named formats, in the order of tables and reports.
std::span<const FormatSpec> AllFormats();

// Returns the format called `name`: a row of the table, or `bfp(bits=13, block=32[,
// exponent_bits=8])`, where `bits` counts shared exponent, sign and magnitude as Quark's bit_width
// does. Throws Error(kInvalidArgument) with the nearest name.
FormatSpec FindFormat(std::string_view name);

// Returns the names of the formats with a scaled_maximum, for messages: "fp16, bf16, fp8_e4m3 ...".
std::string ScaledFormats();

// Throws Error(kInvalidArgument) naming the field that is out of its range. `FindFormat` gives
// valid specs. Operators check the specs that they build from attributes.
void Validate(const FormatSpec& spec);

// Returns the bits of a floating-point element type. Throws Error(kInvalidArgument) for other
// types.
FloatLayout LayoutOf(ElementType type);

// The smallest and largest code of an integer element type.
struct CodeRange {
  int64_t quant_min = 0;
  int64_t quant_max = 0;
};
// Returns the codes of an integer element type. Throws Error(kInvalidArgument) for other types.
CodeRange IntegerRange(ElementType type);

// The values that a blocked format can hold at a scale of 1 = 2^0, and the shared exponents e it
// can store.
struct BlockRange {
  double max_value = 0;   // largest magnitude of an element at e = 0
  int max_exponent = 0;   // floor(log2 max_value): emax of OCP MX
  int fraction_bits = 0;  // bits after the leading one of the largest value
  // Powers of two: the smallest and largest e that scale_bits store. The top code means NaN.
  int min_shared_exponent = 0;
  int max_shared_exponent = 0;
};
// Returns the range of a blocked format. REQUIRES: spec.is_blocked().
BlockRange RangeOf(const FormatSpec& spec);

// Return the word for a choice in configurations ("floor", "half_to_even", ...) and the choice for
// a word. The parsers throw Error(kInvalidArgument) with the allowed words.
std::string_view ScaleChoiceName(ScaleChoice choice);
ScaleChoice ParseScaleChoice(std::string_view word);
std::string_view RoundingModeName(RoundingMode mode);
RoundingMode ParseRoundingMode(std::string_view word);

}  // namespace bitpress::formats
