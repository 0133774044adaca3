#include "formats/block_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "formats/float_bits.h"
#include "formats/reference.h"

namespace bitpress::formats {
namespace {

// Returns the code of the scale nearest to a positive number, ties to even. Scales of
// floating-point types are above zero.
uint32_t NearestScaleCode(const FormatSpec& spec, double scale) {
  return std::max(ref::EncodeFloat(scale, spec.scale_type), 1u);
}

}  // namespace

std::string WhyNoScales(const FormatSpec& spec) {
  if (spec.scale_type == ElementType::kFloat8E4M3) {
    if (spec.sub_block_size > 0 || spec.is_block_float()) return "its scales move no exponents";
    if (spec.scale_choice == ScaleChoice::kEven) return "";
    return fmt::format(
        "its scales are floats, which are rounded to nearest: scale choice even, not {}",
        ScaleChoiceName(spec.scale_choice));
  }
  if (spec.scale_type != ElementType::kPowerOfTwo) {
    return fmt::format("scales of blocks are no {}", TraitsOf(spec.scale_type).name);
  }
  if (spec.scale_bits >= 2 && spec.scale_bits <= 8) return "";
  return fmt::format("exponent_bits is {}, but it must be 2 to 8", spec.scale_bits);
}

double DecodeScale(const FormatSpec& spec, uint32_t code) {
  BITPRESS_DCHECK(spec.is_blocked());
  if (code >= NanScaleCode(spec)) return std::numeric_limits<double>::quiet_NaN();
  if (!spec.has_exponent_scales()) return ref::DecodeFloat(code, spec.scale_type);
  return std::ldexp(1.0, RangeOf(spec).min_shared_exponent + static_cast<int>(code));
}

uint32_t EncodeScale(const FormatSpec& spec, double scale) {
  if (!spec.has_exponent_scales()) return ref::EncodeFloat(scale, spec.scale_type);
  return static_cast<uint32_t>(FloorLog2(scale) - RangeOf(spec).min_shared_exponent);
}

uint32_t NanScaleCode(const FormatSpec& spec) {
  const int sign_bits = spec.has_exponent_scales() ? 0 : 1;
  return (1u << (spec.scale_bits - sign_bits)) - 1;
}

double LeastScale(const FormatSpec& spec) {
  return DecodeScale(spec, spec.has_exponent_scales() ? 0 : 1);
}

namespace ref {
namespace {

// Returns the exponent in a float32's exponent field: the float's own, -127 for subnormals and
// zero.
int StoredExponent(double magnitude) {
  return magnitude < 0x1p-126 ? -kFloatBias : FloorLog2(magnitude);
}

// Returns the smallest exponent with which a magnitude is not above limit * 2^exponent. REQUIRES:
// magnitude is not zero.
int LeastExponent(double magnitude, double limit) {
  BITPRESS_DCHECK(magnitude > 0);
  const int e = FloorLog2(magnitude) - FloorLog2(limit);
  return magnitude <= std::ldexp(limit, e) ? e : e + 1;
}

}  // namespace

int WantedExponent(const FormatSpec& spec, double amax) {
  BITPRESS_DCHECK(amax > 0);
  const BlockRange range = RangeOf(spec);
  // Block floating point reads the float's exponent field, in which all subnormals have the same
  // one.
  const auto exponent_of = [&](double value) {
    return (spec.is_block_float() ? StoredExponent(value) : FloorLog2(value)) - range.max_exponent;
  };
  const int floor = exponent_of(amax);
  switch (spec.scale_choice) {
    case ScaleChoice::kCeil:
      return amax > std::ldexp(range.max_value, floor) ? floor + 1 : floor;
    case ScaleChoice::kEven:
      return exponent_of(amax + std::ldexp(0.5, FloorLog2(amax) - range.fraction_bits));
    case ScaleChoice::kFloor:
    case ScaleChoice::kMse:
      break;
  }
  return floor;
}

int LeastExponent(const FormatSpec& spec, std::span<const float> part, int least) {
  // Two's complement reaches further down than up, so that this is not the exponent of
  // ScaleChoice::kCeil. With that one, -2 and -1.75 in MXINT8 would move to another grid.
  const bool is_twos_complement = spec.kind() == ElementKind::kTwosComplement;
  const double largest = RangeOf(spec).max_value;
  int exponent = least;
  for (const float y : part) {
    const double value = ToDouble(y);
    if (!IsFinite(y) || value == 0) continue;
    const double limit = is_twos_complement && value < 0 ? 2.0 : largest;
    exponent = std::max(exponent, LeastExponent(std::fabs(value), limit));
  }
  return exponent;
}

ScaleCandidates CandidateScales(const FormatSpec& spec, double amax) {
  const BlockRange range = RangeOf(spec);
  if (!spec.has_exponent_scales()) {
    return {{DecodeScale(spec, NearestScaleCode(spec, amax / range.max_value))}};
  }
  const int wanted = WantedExponent(spec, amax);
  const int spread = spec.scale_choice == ScaleChoice::kMse ? 1 : 0;
  ScaleCandidates candidates;
  candidates.error_unit = std::ldexp(1.0, wanted);
  for (int e = wanted - spread; e <= wanted + spread; ++e) {
    const int limited = std::clamp(e, range.min_shared_exponent, range.max_shared_exponent);
    candidates.scales.push_back(std::ldexp(1.0, spec.limit_shared_exponent ? limited : e));
  }
  return candidates;
}

namespace {

// Returns the scales at which some element is the largest magnitude.
std::vector<double> FloatScalesToPack(const FormatSpec& spec, std::span<const float> y) {
  double amax = 0;
  for (const float value : y) {
    if (IsFinite(value)) amax = std::max(amax, std::fabs(ToDouble(value)));
  }
  std::vector<double> scales;
  for (uint32_t code = (1u << (spec.element_bits - 1)) - 1; amax > 0 && code > 0; --code) {
    const double wanted = amax / DecodeFloat(code, spec.element_type);
    const double scale = DecodeScale(spec, NearestScaleCode(spec, wanted));
    if (scale == wanted) scales.push_back(scale);
  }
  if (scales.empty()) scales.push_back(LeastScale(spec));
  return scales;
}

}  // namespace

std::vector<double> ScalesToPack(const FormatSpec& spec, std::span<const float> y) {
  if (!spec.has_exponent_scales()) return FloatScalesToPack(spec, y);
  const BlockRange range = RangeOf(spec);
  const int exponent = LeastExponent(spec, y, range.min_shared_exponent);
  return {std::ldexp(1.0, std::min(exponent, range.max_shared_exponent))};
}

}  // namespace ref
}  // namespace bitpress::formats
