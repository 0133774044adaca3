#include "emit/portable_numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/block_scale.h"

namespace bitpress::emit {
namespace {

using formats::BlockRange;
using formats::FormatSpec;
using formats::RoundingMode;
using formats::ScaleChoice;
using formats::SpecialRule;
using formats::ZeroRule;

constexpr int kMantissaBits = 23;  // mantissa bits of float32
constexpr double kLargestFloat = std::numeric_limits<float>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastNormal = 0x1p-126;
constexpr int64_t kBlockAxis = 1;

// Factors that bring the largest magnitude to a range where float32 has all its bits and room
// above. The first is for values below 1, the second for others.
constexpr double kRaise = 0x1p64;
constexpr double kLower = 0x1p-32;

double PowerOfTwo(int exponent) { return std::ldexp(1.0, exponent); }

bool IsFloat(const FormatSpec& spec) { return spec.has_float_elements(); }
bool IsTwosComplement(const FormatSpec& spec) { return spec.zero_rule == ZeroRule::kPositive; }

// Returns the number of bits of an element behind the leading one.
int FractionBits(const FormatSpec& spec) {
  return IsFloat(spec) ? formats::LayoutOf(spec.element_type).mantissa_bits : spec.element_bits - 2;
}

// Returns the distance of neighbouring element values around zero, at a shared exponent of 0.
double SmallestStep(const FormatSpec& spec) {
  const int exponent = IsFloat(spec) ? 1 - formats::LayoutOf(spec.element_type).bias : 0;
  return PowerOfTwo(exponent - FractionBits(spec));
}

// --- Rounding to elements
// -----------------------------------------------------------------------------------------------

// Returns where elements are NaN or infinite.
std::string IsSpecial(FunctionBody& body, const std::string& x) {
  const std::string zero_or_nan = body.Add("Mul", "zero_or_nan", {x, body.Number(0.0)});
  return body.Add("IsNaN", "is_special", {zero_or_nan});
}

// Rounds magnitudes to the nearest, ties to even. The results are multiples of the smallest step.
// For a float type they also keep only its mantissa bits. REQUIRES: magnitudes are below 2^(105 +
// mantissa_bits) for a float type, and at most 2 for an integer type.
std::string RoundMagnitudes(FunctionBody& body, const FormatSpec& spec,
                            const std::string& magnitude) {
  std::string anchor = body.Number(std::ldexp(SmallestStep(spec), kMantissaBits + 1));
  if (IsFloat(spec)) {
    const double factor = PowerOfTwo(kMantissaBits - FractionBits(spec));
    const std::string raised = body.Add("Mul", "raised", {magnitude, body.Number(factor)});
    anchor = body.Add("Max", "anchor", {raised, anchor});
  }
  const std::string below_anchor = body.Add("Sub", "below_anchor", {anchor, magnitude});
  return body.Add("Sub", "rounded_magnitude", {anchor, below_anchor});
}

// Returns `magnitude` with the sign of `x`, also if `x` is a zero. REQUIRES: |x| is at least half
// of the smallest step where the magnitude is not 0.
std::string WithSignOf(FunctionBody& body, const FormatSpec& spec, const std::string& x,
                       const std::string& magnitude) {
  constexpr int kMostInOneFactor = 126;
  const int exponent = 1 - std::ilogb(SmallestStep(spec));
  const int first = std::min(exponent, kMostInOneFactor);
  std::string enlarged = body.Add("Mul", "enlarged", {x, body.Number(PowerOfTwo(first))});
  if (exponent > first) {
    const double rest = PowerOfTwo(exponent - first);
    enlarged = body.Add("Mul", "enlarged_more", {enlarged, body.Number(rest)});
  }
  const std::string sign =
      body.Add("Clip", "sign", {enlarged, body.Scalar(-1.0), body.Scalar(1.0)});
  return body.Add("Mul", "with_sign", {magnitude, sign});
}

// Rounds `saturated` to whole numbers of steps by a rule other than half to even. The result is in
// units of the scale. For half away from zero it is the magnitude.
std::string RoundSteps(FunctionBody& body, const FormatSpec& spec, const std::string& saturated) {
  const int fraction_bits = FractionBits(spec);
  const std::string per_step = body.Number(PowerOfTwo(fraction_bits));
  std::string steps = body.Add("Mul", "steps", {saturated, per_step});
  if (spec.rounding == RoundingMode::kHalfAwayFromZero) {
    steps = body.Add("Abs", "steps_magnitude", {steps});
  }
  const std::string floor = body.Add("Floor", "floor_of_steps", {steps});
  const std::string fraction = body.Add("Sub", "fraction", {steps, floor});
  const std::string is_up = body.Add("GreaterOrEqual", "is_up", {fraction, body.Number(0.5)});
  const std::string carry =
      body.Add("Cast", "carry", {is_up}, {{"to", static_cast<int64_t>(DataType::kFloat)}});
  const std::string whole = body.Add("Add", "whole_steps", {floor, carry});
  return body.Add("Mul", "rounded_steps", {whole, body.Number(PowerOfTwo(-fraction_bits))});
}

// Returns the nearest element values, in units of the scale.
std::string RoundToElements(FunctionBody& body, const FormatSpec& spec, double max_value,
                            const std::string& scaled) {
  const double step = SmallestStep(spec);
  // Two's complement has one value more below zero.
  const double min_value = IsTwosComplement(spec) ? -max_value - step : -max_value;
  const std::string saturated =
      body.Add("Clip", "saturated", {scaled, body.Scalar(min_value), body.Scalar(max_value)});
  std::string magnitude;
  if (spec.rounding == RoundingMode::kHalfToEven) {
    if (IsTwosComplement(spec)) {
      // This anchor serves both signs and gives +0 for all zeros.
      const std::string anchor = body.Number(1.5 * std::ldexp(step, kMantissaBits));
      const std::string below_anchor = body.Add("Sub", "below_anchor", {anchor, saturated});
      return body.Add("Sub", "rounded", {anchor, below_anchor});
    }
    magnitude = RoundMagnitudes(body, spec, body.Add("Abs", "scaled_magnitude", {saturated}));
  } else {
    magnitude = RoundSteps(body, spec, saturated);
    if (spec.rounding == RoundingMode::kHalfUp) {
      if (IsTwosComplement(spec)) return magnitude;  // the sum of steps and carry, never -0
      magnitude = body.Add("Abs", "rounded_magnitude", {magnitude});
    }
  }
  const std::string rounded = WithSignOf(body, spec, saturated, magnitude);
  if (!IsTwosComplement(spec)) return rounded;
  const std::string is_zero = body.Add("Equal", "is_zero", {magnitude, body.Number(0.0)});
  return body.Add("Where", "rounded", {is_zero, body.Number(0.0), rounded});
}

// --- Blocks
// -------------------------------------------------------------------------------------------------------------

class BlockBody {
 public:
  BlockBody(FunctionBody& body, const FormatSpec& spec)
      : body_(body), spec_(spec), range_(formats::RangeOf(spec)) {}

  std::string Quantize(const std::string& blocks, const std::string& flat_dims);

 private:
  std::string Add(const char* op_type, std::string output, std::vector<std::string> inputs) {
    return body_.Add(op_type, std::move(output), std::move(inputs));
  }
  std::string Number(double value) { return body_.Number(value); }
  bool has_sub_blocks() const { return spec_.sub_block_size > 0; }

  std::string FloatScale(const std::string& largest);
  std::string WantedScale(const std::string& largest);
  std::string Limited(const std::string& scale);
  std::string QuantizeAt(const std::string& shared_scale);
  std::string LeastErrorScale(const std::string& wanted, const std::string& flat_dims);
  std::string SquaredError(const std::string& scale, const std::string& error_unit,
                           const std::string& flat_dims);

  FunctionBody& body_;
  const FormatSpec& spec_;
  BlockRange range_;
  std::string x_;                 // the blocks, subnormals flushed where the format does
  std::string finite_;            // the blocks, 0 for NaN and infinity
  std::string is_special_;        // where elements are NaN or infinite
  std::string wanted_sub_scale_;  // the scale that each sub-block wants
};

// Returns 2^e for the exponent e that a largest magnitude wants before it is limited. The result is
// 0 or infinity beyond the range of float32.
std::string BlockBody::WantedScale(const std::string& largest) {
  // 1. Bring the value into a range where nothing under- or overflows.
  const std::string is_small = Add("Less", "is_small", {largest, Number(1.0)});
  const std::string factor = Add("Where", "factor", {is_small, Number(kRaise), Number(kLower)});
  const std::string value = Add("Mul", "in_range", {largest, factor});
  // 2. Take the power of two at or below: the nearest one (rounding to one bit), or half of it.
  const std::string anchor = Add("Mul", "power_anchor", {value, Number(PowerOfTwo(kMantissaBits))});
  const std::string below_anchor = Add("Sub", "below_power_anchor", {anchor, value});
  const std::string nearest = Add("Sub", "nearest_power", {anchor, below_anchor});
  const std::string is_above = Add("Greater", "is_above", {nearest, value});
  const std::string half = Add("Mul", "half_power", {nearest, Number(0.5)});
  std::string power = Add("Where", "power", {is_above, half, nearest});
  // Takes the next power where value `compares` to `limit` times this one.
  const auto raise = [&](const char* compares, double limit) {
    const std::string top = Add("Mul", "top", {power, Number(limit)});
    const std::string is_beyond = Add(compares, "is_beyond", {value, top});
    const std::string next = Add("Mul", "next_power", {power, Number(2.0)});
    power = Add("Where", "chosen_power", {is_beyond, next, power});
  };
  // 3. Even: take the next power if half a step of the element more reaches it.
  if (spec_.scale_choice == ScaleChoice::kEven) {
    raise("GreaterOrEqual", 2 - PowerOfTwo(-range_.fraction_bits - 1));
  }
  // 4. Block floating point reads the float's exponent field, in which all subnormals have -127.
  if (spec_.is_block_float()) {
    power = Add("Max", "stored_power", {power, Number(kRaise * 0x1p-127)});
  }
  // 5. Ceil: take the next power if the largest element value does not reach the value.
  if (spec_.scale_choice == ScaleChoice::kCeil) {
    raise("Greater", std::ldexp(range_.max_value, -range_.max_exponent));
  }
  // 6. Subtract emax, and undo the factor of step 1.
  if (range_.max_exponent != 0) {
    power = Add("Mul", "less_emax", {power, Number(PowerOfTwo(-range_.max_exponent))});
  }
  return Add("Div", "wanted_scale", {power, factor});
}

// Returns the nearest scale of a floating-point type at which the largest element is a largest
// magnitude. Quotients of float32 round as exact ones do, because ties times elements are float32
// numbers.
std::string BlockBody::FloatScale(const std::string& largest) {
  FormatSpec type = spec_;
  type.element_type = spec_.scale_type;
  const std::string wanted = Add("Div", "wanted_scale", {largest, Number(range_.max_value)});
  const double most = formats::LayoutOf(spec_.scale_type).max_value;
  const std::string limited = Add("Min", "limited_scale", {wanted, Number(most)});
  const std::string rounded = RoundMagnitudes(body_, type, limited);
  return Add("Max", "shared_scale", {rounded, Number(formats::LeastScale(spec_))});
}

std::string BlockBody::Limited(const std::string& scale) {
  return Add("Clip", "shared_scale",
             {scale, body_.Scalar(PowerOfTwo(range_.min_shared_exponent)),
              body_.Scalar(PowerOfTwo(range_.max_shared_exponent))});
}

// Quantizes and dequantizes the blocks. Results for special elements are arbitrary.
std::string BlockBody::QuantizeAt(const std::string& shared_scale) {
  std::string scale = shared_scale;
  if (has_sub_blocks()) {
    // A sub-block lowers the scale as far as it wants itself. All values are zero if that is below
    // 2^-127, and 1 / scale must be finite.
    const int max_shift = (1 << spec_.sub_block_shift_bits) - 1;
    const std::string lowered =
        Add("Mul", "lowered_scale", {scale, Number(PowerOfTwo(-max_shift))});
    const std::string least = Add("Max", "least_sub_scale", {lowered, Number(0x1p-127)});
    const std::string at_least = Add("Max", "sub_scale_at_least", {wanted_sub_scale_, least});
    scale = Add("Min", "sub_scale", {at_least, scale});
  }
  std::string scaled;
  if (spec_.has_exponent_scales()) {
    const std::string inverse_scale = Add("Div", "inverse_scale", {Number(1.0), scale});
    scaled = Add("Mul", "scaled", {x_, inverse_scale});
  } else {
    scaled = Add("Div", "scaled", {x_, scale});
  }
  const std::string rounded = RoundToElements(body_, spec_, range_.max_value, scaled);
  const std::string decoded = Add("Mul", "decoded", {rounded, scale});
  // The decoded value of an element may be too large for float32.
  const bool fits = spec_.is_block_float() || !spec_.has_exponent_scales() ||
                    (IsFloat(spec_) && spec_.scale_choice == ScaleChoice::kFloor);
  if (fits) return decoded;
  return Add("Clip", "decoded_finite",
             {decoded, body_.Scalar(-kLargestFloat), body_.Scalar(kLargestFloat)});
}

// Returns the sum of squared errors of each block, added up in the order of its elements. CumSum
// keeps that order; ReduceSum promises none.
std::string BlockBody::SquaredError(const std::string& scale, const std::string& error_unit,
                                    const std::string& flat_dims) {
  const std::string decoded = QuantizeAt(scale);
  const std::string finite = Add("Where", "decoded_or_zero", {is_special_, Number(0.0), decoded});
  const std::string difference = Add("Sub", "difference", {finite, finite_});
  const std::string error = Add("Mul", "error", {difference, error_unit});
  std::string squares = Add("Mul", "squares", {error, error});
  if (has_sub_blocks()) squares = body_.Reshape("squares_of_blocks", squares, flat_dims);
  const std::string sums = Add("CumSum", "sums", {squares, body_.Integers({kBlockAxis})});
  const std::string last = body_.Integers({spec_.block_size - 1});
  const std::string end = body_.Integers({spec_.block_size});
  const std::string total =
      Add("Slice", "squared_error", {sums, last, end, body_.Integers({kBlockAxis})});
  if (!has_sub_blocks()) return total;
  return Add("Unsqueeze", "squared_error_of_blocks", {total, body_.Integers({kBlockAxis})});
}

// Returns the scale with the least error among the floor's scale, half of it and twice of it. Ties
// go to the lowest. Errors are in units of the floor's scale. If limits change that unit, it is
// still the same for all three.
std::string BlockBody::LeastErrorScale(const std::string& wanted, const std::string& flat_dims) {
  body_.SetPrefix("floor_");
  const std::string floor = Limited(wanted);
  const std::string error_unit = Add("Div", "error_unit", {Number(1.0), floor});
  body_.SetPrefix("half_");
  std::string best = Limited(Add("Mul", "wanted_scale", {wanted, Number(0.5)}));
  std::string least = SquaredError(best, error_unit, flat_dims);
  const auto compare = [&](const std::string& scale) {
    const std::string error = SquaredError(scale, error_unit, flat_dims);
    const std::string is_less = Add("Less", "is_less", {error, least});
    best = Add("Where", "best_scale", {is_less, scale, best});
    least = Add("Min", "least_error", {error, least});
  };
  body_.SetPrefix("floor_");
  compare(floor);
  body_.SetPrefix("twice_");
  compare(Limited(Add("Mul", "wanted_scale", {wanted, Number(2.0)})));
  body_.SetPrefix("");
  return best;
}

std::string BlockBody::Quantize(const std::string& blocks, const std::string& flat_dims) {
  const bool is_nan_block = spec_.special_rule == SpecialRule::kNanBlock;
  is_special_ = IsSpecial(body_, blocks);
  const std::string magnitude = Add("Abs", "magnitude", {blocks});
  // Infinity marks the blocks that become NaN. Other formats ignore it.
  const std::string finite_magnitude =
      Add("Where", "finite_magnitude",
          {is_special_, Number(is_nan_block ? kInfinity : 0.0), magnitude});
  std::string block_max;
  if (has_sub_blocks()) {
    const std::string sub_block_max =
        body_.ReduceMax("sub_block_max", finite_magnitude, kBlockAxis + 1);
    block_max = body_.ReduceMax("block_max", sub_block_max, kBlockAxis);
    body_.SetPrefix("sub_block_");
    wanted_sub_scale_ = WantedScale(sub_block_max);
  } else {
    block_max = body_.ReduceMax("block_max", finite_magnitude, kBlockAxis);
  }
  body_.SetPrefix("block_");
  const std::string wanted =
      spec_.has_exponent_scales() ? WantedScale(block_max) : FloatScale(block_max);
  body_.SetPrefix("");

  x_ = blocks;
  if (spec_.flush_subnormals) {
    const std::string is_normal =
        Add("GreaterOrEqual", "is_normal", {magnitude, Number(kLeastNormal)});
    const std::string signed_zero = Add("Mul", "signed_zero", {blocks, Number(0.0)});
    x_ = Add("Where", "flushed", {is_normal, blocks, signed_zero});
  }
  if (spec_.scale_choice == ScaleChoice::kMse) {
    finite_ = Add("Where", "finite", {is_special_, Number(0.0), blocks});
  }
  const std::string decoded =
      QuantizeAt(spec_.scale_choice == ScaleChoice::kMse ? LeastErrorScale(wanted, flat_dims)
                 : spec_.has_exponent_scales()           ? Limited(wanted)
                                                         : wanted);
  if (!is_nan_block) return Add("Where", "quantized", {is_special_, blocks, decoded});
  const std::string is_nan = Add("Greater", "is_nan_block", {block_max, Number(kLargestFloat)});
  return Add("Where", "quantized", {is_nan, Number(kNan), decoded});
}

// Rounds elements with float32's own exponents, for which RoundMagnitudes has no room. So values
// above 1 are rounded 2^32 times smaller.
std::string RoundWideElements(FunctionBody& body, const FormatSpec& spec, double max_value,
                              const std::string& x) {
  const auto number = [&](double value) { return body.Number(value); };
  const std::string magnitude = body.Add("Abs", "magnitude", {x});
  const std::string is_large = body.Add("Greater", "is_large", {magnitude, number(1.0)});
  const std::string factor = body.Add("Where", "factor", {is_large, number(kLower), number(1.0)});
  const std::string in_range = body.Add("Mul", "in_range", {magnitude, factor});
  const std::string rounded = RoundMagnitudes(body, spec, in_range);
  const std::string unlimited = body.Add("Div", "unlimited", {rounded, factor});
  const std::string saturated = body.Add("Min", "saturated", {unlimited, number(max_value)});
  return WithSignOf(body, spec, x, saturated);
}

}  // namespace

std::string QuantizeElements(FunctionBody& body, const FormatSpec& spec, const std::string& x) {
  const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
  const bool is_wide = layout.max_exponent + kMantissaBits - layout.mantissa_bits > 127;
  const std::string rounded = is_wide ? RoundWideElements(body, spec, layout.max_value, x)
                                      : RoundToElements(body, spec, layout.max_value, x);
  const bool infinity_saturates = spec.special_rule == SpecialRule::kSaturate;
  const std::string passes =
      infinity_saturates ? body.Add("IsNaN", "is_nan", {x}) : IsSpecial(body, x);
  return body.Add("Where", "quantized", {passes, x, rounded});
}

std::string QuantizeBlocks(FunctionBody& body, const FormatSpec& spec, const std::string& blocks,
                           const std::string& flat_dims) {
  return BlockBody(body, spec).Quantize(blocks, flat_dims);
}

}  // namespace bitpress::emit
