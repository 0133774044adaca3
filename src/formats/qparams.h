// Scale and zero point of an integer tensor: x_hat = (q - zero_point) * scale. These functions take
// the range of its values to these two numbers, in double, rounded once. For example:
//
//   const QParams params = QParamsForRange(-1, 2, {.element_type = ElementType::kInt8});
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "formats/format_spec.h"

namespace bitpress::formats {

// The set of allowed scales.
enum class ScaleKind {
  kFloat,       // any float32
  kPowerOfTwo,  // 2^p, -127 <= p <= 127: a shift on hardware
  kInt16,       // M / 2^N with 0 <= N <= 16 and 1 <= M <= 32767: a multiplication and a shift
  kLpbq,        // of blocks: M times the scale of their channel, 1 <= M <= 16
};

// The use of the codes of an integer tensor.
struct IntegerSpec {
  ElementType element_type = ElementType::kInt8;
  // Zero is in the middle of the codes: the zero point is 0, or half the number of codes for
  // unsigned types.
  bool is_symmetric = true;
  // The codes have one bit less, -64..64 or 0..127, for processors whose sums of two 8-bit products
  // overflow 16 bits.
  bool is_reduced = false;
  ScaleKind scale_kind = ScaleKind::kFloat;

  bool operator==(const IntegerSpec&) const = default;
};

struct QParams {
  float scale = 1;
  int64_t zero_point = 0;
  bool operator==(const QParams&) const = default;
};

// Returns the codes that values are mapped to: a symmetric signed type does without its smallest
// code. Quantizing saturates at the ends of the type all the same.
CodeRange UsedCodes(const IntegerSpec& spec);

// Returns the parameters with which the codes cover [range_min, range_max] and 0. Symmetric: scale
// = 2 amax / (used codes - 1). Otherwise scale = (max - min) / (used codes - 1) and zero_point =
// round(quant_min - min / scale), ties to even. A range that is empty, or so small that the scale
// would be no normal float32, gives scale 1 and the zero point of zero. Infinite ends count as half
// the largest float32, as in AMD Quark. A power of two is rounded up, so that nothing saturates;
// M / 2^N is the nearest. REQUIRES: neither end is NaN, range_min <= range_max.
QParams QParamsForRange(double range_min, double range_max, const IntegerSpec& spec);

// Returns the allowed scale next to `scale` for the same codes: `scale` itself, the power of two
// with the nearest logarithm (ties to even), or the nearest M / 2^N. REQUIRES: scale is positive
// and finite.
float AllowedScale(double scale, ScaleKind kind);

// The values of the codes at the ends of the type.
struct FloatRange {
  double min = 0;
  double max = 0;
};
FloatRange RangeOf(const QParams& params, const IntegerSpec& spec);

// Return the word for a kind ("float", "power_of_two", "int16") and the kind for a word. The parser
// throws Error(kInvalidArgument) with the allowed words.
std::string_view ScaleKindName(ScaleKind kind);
ScaleKind ParseScaleKind(std::string_view word);

// Returns a value in units of codes, before it is rounded: value / scale + zero_point.
inline float CodeUnits(float value, const QParams& params) {
  return value / params.scale + static_cast<float>(params.zero_point);
}

}  // namespace bitpress::formats
