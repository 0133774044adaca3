#include "formats/qparams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/words.h"

namespace bitpress::formats {
namespace {

constexpr int kMaxPosition = 127;
constexpr int kMaxShift = 16;
constexpr int kMultiplierBits = 15;
constexpr int kMaxMultiplier = 32767;

bool IsSigned(ElementType type) { return IntegerRange(type).quant_min < 0; }

// Returns 2^p for the p that `round` makes of log2(scale).
double PowerOfTwo(double scale, double (*round)(double)) {
  int exponent = 0;
  // The logarithm of a power of two must come out whole.
  const double fraction = std::frexp(scale, &exponent);
  const double position = fraction == 0.5 ? exponent - 1 : round(std::log2(scale));
  return std::ldexp(
      1.0, static_cast<int>(std::clamp(position, -1.0 * kMaxPosition, 1.0 * kMaxPosition)));
}

// Returns the nearest M / 2^N. The largest N that leaves M below 2^15 has the finest grid; the
// grids of all smaller N lie on it.
double MultiplierAndShift(double scale) {
  int exponent = 0;
  std::frexp(scale, &exponent);  // scale < 2^exponent
  const int shift = std::clamp(kMultiplierBits - exponent, 0, kMaxShift);
  const double multiplier = std::max(std::nearbyint(std::ldexp(scale, shift)), 1.0);
  // Rounding up to 2^15 gives 2^14 / 2^(N - 1), if there is such a shift.
  const double largest = shift > 0 ? kMaxMultiplier + 1.0 : kMaxMultiplier;
  return std::ldexp(std::min(multiplier, largest), -shift);
}

constexpr std::array<std::pair<std::string_view, ScaleKind>, 4> kScaleKinds{
    {{"float", ScaleKind::kFloat},
     {"power_of_two", ScaleKind::kPowerOfTwo},
     {"int16", ScaleKind::kInt16},
     {"lpbq", ScaleKind::kLpbq}}};

}  // namespace

CodeRange UsedCodes(const IntegerSpec& spec) {
  CodeRange range = IntegerRange(spec.element_type);
  const bool is_signed = range.quant_min < 0;
  if (spec.is_reduced) {
    const int64_t half = (range.quant_max + 1) / 2;
    return is_signed ? CodeRange{-half, half} : CodeRange{0, range.quant_max / 2};
  }
  if (is_signed && spec.is_symmetric) ++range.quant_min;
  return range;
}

QParams QParamsForRange(double range_min, double range_max, const IntegerSpec& spec) {
  BITPRESS_DCHECK(!std::isnan(range_min) && !std::isnan(range_max));
  constexpr double kMost = std::numeric_limits<float>::max() / 2;
  const double min = std::clamp(range_min, -kMost, 0.0);
  const double max = std::clamp(range_max, 0.0, kMost);
  const CodeRange codes = UsedCodes(spec);
  const auto steps = static_cast<double>(codes.quant_max - codes.quant_min);
  const double amax = std::max(-min, max);
  const double width = spec.is_symmetric ? 2 * amax : max - min;
  QParams params;
  // Half of the codes, rounded up: 128 for 0..255, 64 for 0..127.
  const int64_t middle = IsSigned(spec.element_type) ? 0 : (codes.quant_max + 1) / 2;
  params.zero_point = spec.is_symmetric ? middle : std::max(codes.quant_min, int64_t{0});
  double scale = width / steps;
  if (!(scale >= std::numeric_limits<float>::min())) return params;
  if (spec.scale_kind == ScaleKind::kPowerOfTwo) {
    scale = PowerOfTwo(scale, std::ceil);
  } else {
    scale = AllowedScale(scale, spec.scale_kind);
  }
  params.scale = static_cast<float>(scale);
  if (!spec.is_symmetric) {
    const double zero = std::nearbyint(static_cast<double>(codes.quant_min) - min / params.scale);
    params.zero_point = static_cast<int64_t>(std::clamp(zero, static_cast<double>(codes.quant_min),
                                                        static_cast<double>(codes.quant_max)));
  }
  return params;
}

float AllowedScale(double scale, ScaleKind kind) {
  BITPRESS_DCHECK(scale > 0 && std::isfinite(scale));
  switch (kind) {
    case ScaleKind::kFloat:
    case ScaleKind::kLpbq:  // all blocks of a channel decide it together
      return static_cast<float>(scale);
    case ScaleKind::kPowerOfTwo:
      return static_cast<float>(PowerOfTwo(scale, std::nearbyint));
    case ScaleKind::kInt16:
      return static_cast<float>(MultiplierAndShift(scale));
  }
  return static_cast<float>(scale);
}

FloatRange RangeOf(const QParams& params, const IntegerSpec& spec) {
  const CodeRange codes = IntegerRange(spec.element_type);
  const auto value = [&](int64_t code) {
    return static_cast<double>(code - params.zero_point) * params.scale;
  };
  return {value(codes.quant_min), value(codes.quant_max)};
}

std::string_view ScaleKindName(ScaleKind kind) { return WordOf<ScaleKind>(kScaleKinds, kind); }

ScaleKind ParseScaleKind(std::string_view word) {
  return ParseWord<ScaleKind>(kScaleKinds, word, "scale kind");
}

}  // namespace bitpress::formats
