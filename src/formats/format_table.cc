// The table of formats and the words for its fields.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/words.h"
#include "formats/format_spec.h"
#include "formats/parameters.h"

namespace bitpress::formats {
namespace {

// A row for each ElementType, in its order. The layouts are those of IEEE 754-2019 (binary16),
// bfloat16, and OCP MX 1.0 sections 5.3.1 to 5.3.4.
constexpr std::array<ElementTraits, 21> kElements = {{
    {"INT2", ElementKind::kTwosComplement, 2},
    {"UINT2", ElementKind::kUnsigned, 2},
    {"INT3", ElementKind::kTwosComplement, 3},
    {"UINT3", ElementKind::kUnsigned, 3},
    {"INT4", ElementKind::kTwosComplement, 4},
    {"UINT4", ElementKind::kUnsigned, 4},
    {"INT8", ElementKind::kTwosComplement, 8},
    {"UINT8", ElementKind::kUnsigned, 8},
    {"INT16", ElementKind::kTwosComplement, 16},
    {"UINT16", ElementKind::kUnsigned, 16},
    {"INT32", ElementKind::kTwosComplement, 32},
    {"UINT32", ElementKind::kUnsigned, 32},
    {"FLOAT16", ElementKind::kFloat, 16, {5, 10, 15, 15, 65504.0, true, true}},
    {"BFLOAT16", ElementKind::kFloat, 16, {8, 7, 127, 127, 255.0 * 0x1p120, true, true}},
    {"FLOAT8E4M3FN", ElementKind::kFloat, 8, {4, 3, 7, 8, 448.0, false, true}},
    {"FLOAT8E5M2", ElementKind::kFloat, 8, {5, 2, 15, 15, 57344.0, true, true}},
    {"FLOAT6E2M3", ElementKind::kFloat, 6, {2, 3, 1, 2, 7.5, false, false}},
    {"FLOAT6E3M2", ElementKind::kFloat, 6, {3, 2, 3, 4, 28.0, false, false}},
    {"FLOAT4E2M1", ElementKind::kFloat, 4, {2, 1, 1, 2, 6.0, false, false}},
    {"SIGN_MAGNITUDE", ElementKind::kSignMagnitude, 0},
    {"FLOAT8E8M0", ElementKind::kPowerOfTwo, 0},
}};
static_assert(kElements[static_cast<size_t>(ElementType::kPowerOfTwo)].kind ==
              ElementKind::kPowerOfTwo);

FormatSpec Integer(const char* name, ElementType type, DataType onnx_type, const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.element_type = type;
  spec.element_bits = TraitsOf(type).bits;
  spec.zero_rule = ZeroRule::kPositive;
  spec.special_rule = SpecialRule::kSaturate;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  return spec;
}

FormatSpec Float(const char* name, ElementType type, DataType onnx_type, const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.element_type = type;
  spec.element_bits = TraitsOf(type).bits;
  spec.special_rule = spec.element_bits == 8 ? SpecialRule::kSaturate : SpecialRule::kPass;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  // The exponents of bf16 reach far enough anyway (AMD Quark's choice).
  spec.scaled_maximum = type == ElementType::kBFloat16 ? 2 : LayoutOf(type).max_value;
  return spec;
}

// OCP Microscaling Formats (MX) 1.0, table 1: blocks of 32, E8M0 scale.
FormatSpec Microscaling(const char* name, ElementType type, DataType onnx_type, const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.element_type = type;
  spec.element_bits = TraitsOf(type).bits;
  spec.block_size = 32;
  spec.scale_bits = 8;
  spec.zero_rule = type == ElementType::kInt8 ? ZeroRule::kPositive : ZeroRule::kKeepSign;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  return spec;
}

// NVIDIA's NVFP4: blocks of 16 share an E4M3 number, and a tensor a float that gives its largest
// magnitude the largest element and scale.
FormatSpec FloatScaled(const char* name, ElementType type, ElementType scale_type,
                       DataType onnx_type) {
  FormatSpec spec = Microscaling(name, type, onnx_type, "");
  spec.block_size = 16;
  spec.scale_type = scale_type;
  spec.scale_choice = ScaleChoice::kEven;
  spec.scaled_maximum = LayoutOf(type).max_value * LayoutOf(scale_type).max_value;
  return spec;
}

FormatSpec BlockFloat(std::string name, int element_bits, int block_size, int scale_bits,
                      const char* quark) {
  FormatSpec spec;
  spec.name = std::move(name);
  spec.element_type = ElementType::kSignMagnitude;
  spec.element_bits = element_bits;
  spec.block_size = block_size;
  spec.scale_bits = scale_bits;
  spec.quark_name = quark;
  return spec;
}

// Shared microexponents (Rouhani et al. 2023, "With Shared Microexponents, A Little Shifting Goes a
// Long Way", table 1): 16 elements share 8 exponent bits, pairs share one more bit.
FormatSpec SharedMicroexponent(const char* name, int magnitude_bits, const char* quark) {
  FormatSpec spec = BlockFloat(name, 1 + magnitude_bits, 16, 8, quark);
  spec.sub_block_size = 2;
  spec.sub_block_shift_bits = 1;
  spec.special_rule = SpecialRule::kNanBlock;
  spec.flush_subnormals = true;
  return spec;
}

const std::vector<FormatSpec>& Table() {
  using E = ElementType;
  using D = DataType;
  static const std::vector<FormatSpec> table = {
      Integer("int2", E::kInt2, D::kInt2, ""),
      Integer("uint2", E::kUInt2, D::kUInt2, ""),
      Integer("int3", E::kInt3, D::kInt4, ""),
      Integer("uint3", E::kUInt3, D::kUInt4, ""),
      Integer("int4", E::kInt4, D::kInt4, "QInt4"),
      Integer("uint4", E::kUInt4, D::kUInt4, "QUInt4"),
      Integer("int8", E::kInt8, D::kInt8, "QInt8"),
      Integer("uint8", E::kUInt8, D::kUInt8, "QUInt8"),
      Integer("int16", E::kInt16, D::kInt16, "QInt16"),
      Integer("uint16", E::kUInt16, D::kUInt16, "QUInt16"),
      Integer("int32", E::kInt32, D::kInt32, "QInt32"),
      Integer("uint32", E::kUInt32, D::kUInt32, "QUInt32"),
      Float("fp16", E::kFloat16, D::kFloat16, "QFloat16"),
      Float("bf16", E::kBFloat16, D::kBFloat16, "QBFloat16"),
      Float("fp8_e4m3", E::kFloat8E4M3, D::kFloat8E4M3FN, ""),
      Float("fp8_e5m2", E::kFloat8E5M2, D::kFloat8E5M2, ""),
      BlockFloat("bfp16", 8, 8, 8, "QBFP"),
      SharedMicroexponent("mx4", 2, "QBFP"),
      SharedMicroexponent("mx6", 4, "QBFP"),
      SharedMicroexponent("mx9", 7, "QBFP"),
      Microscaling("mxfp8_e5m2", E::kFloat8E5M2, D::kFloat8E5M2, "fp8_e5m2"),
      Microscaling("mxfp8_e4m3", E::kFloat8E4M3, D::kFloat8E4M3FN, "fp8_e4m3"),
      Microscaling("mxfp6_e3m2", E::kFloat6E3M2, D::kUndefined, "fp6_e3m2"),
      Microscaling("mxfp6_e2m3", E::kFloat6E2M3, D::kUndefined, "fp6_e2m3"),
      Microscaling("mxfp4_e2m1", E::kFloat4E2M1, D::kFloat4E2M1, "fp4_e2m1"),
      FloatScaled("nvfp4", E::kFloat4E2M1, E::kFloat8E4M3, D::kFloat4E2M1),
      Microscaling("mxint8", E::kInt8, D::kInt8, "int8"),
  };
  return table;
}

constexpr std::array<std::pair<std::string_view, ScaleChoice>, 4> kScaleChoices = {{
    {"floor", ScaleChoice::kFloor},
    {"ceil", ScaleChoice::kCeil},
    {"even", ScaleChoice::kEven},
    {"mse", ScaleChoice::kMse},
}};

constexpr std::array<std::pair<std::string_view, RoundingMode>, 3> kRoundingModes = {{
    {"half_to_even", RoundingMode::kHalfToEven},
    {"half_away_from_zero", RoundingMode::kHalfAwayFromZero},
    {"half_up", RoundingMode::kHalfUp},
}};

}  // namespace

double FormatSpec::BitsPerElement() const {
  double bits = element_bits;
  if (is_blocked()) bits += static_cast<double>(scale_bits) / block_size;
  if (sub_block_size > 0) bits += static_cast<double>(sub_block_shift_bits) / sub_block_size;
  return bits;
}

std::span<const FormatSpec> AllFormats() { return Table(); }

FormatSpec FindFormat(std::string_view name) {
  const std::string wanted = ToLower(Trim(name));
  const std::string base = wanted.substr(0, wanted.find('('));
  if (wanted.ends_with(")") && !ParametersOf(base).empty()) return ParseParameters(wanted);
  std::vector<std::string> names;
  for (const FormatSpec& spec : Table()) {
    if (spec.name == wanted) return spec;
    names.push_back(spec.name);
  }
  for (const char* example :
       {"bfp(bits=13, block=32)", "mx(bits=12, block=32)", "mxint8(block=16)"}) {
    names.emplace_back(example);
  }
  Fail(ErrorCode::kInvalidArgument, "unknown format '{}'{}; known formats: {}", name,
       DidYouMean(wanted, names), Join(names, " "));
}

std::string ScaledFormats() {
  std::vector<std::string> names;
  for (const FormatSpec& spec : Table()) {
    if (spec.scaled_maximum > 0) names.push_back(spec.name);
  }
  return Join(names, ", ");
}

const ElementTraits& TraitsOf(ElementType type) { return kElements[static_cast<size_t>(type)]; }

FloatLayout LayoutOf(ElementType type) {
  const ElementTraits& traits = TraitsOf(type);
  if (traits.kind != ElementKind::kFloat) {
    Fail(ErrorCode::kInvalidArgument, "{} is not a floating-point element type", traits.name);
  }
  return traits.layout;
}

CodeRange IntegerRange(ElementType type) {
  const ElementTraits& traits = TraitsOf(type);
  switch (traits.kind) {
    case ElementKind::kUnsigned:
      return {0, (int64_t{1} << traits.bits) - 1};
    case ElementKind::kTwosComplement:
      return {-(int64_t{1} << (traits.bits - 1)), (int64_t{1} << (traits.bits - 1)) - 1};
    default:
      Fail(ErrorCode::kInvalidArgument, "{} is not an integer element type", traits.name);
  }
}

BlockRange RangeOf(const FormatSpec& spec) {
  BITPRESS_DCHECK(spec.is_blocked());
  BlockRange range;
  if (spec.has_float_elements()) {
    const FloatLayout& layout = TraitsOf(spec.element_type).layout;
    range.max_value = layout.max_value;
    range.max_exponent = layout.max_exponent;
    range.fraction_bits = layout.mantissa_bits;
  } else {
    // Integers with an implicit point behind the first magnitude bit: 1.xxx * 2^e at most. MXINT8
    // has 6 fraction bits (OCP MX 1.0 section 5.3.4).
    const int magnitude_bits = spec.element_bits - 1;
    range.fraction_bits = magnitude_bits - 1;
    range.max_value = std::ldexp(1.0, magnitude_bits) - 1.0;
    range.max_value = std::ldexp(range.max_value, -range.fraction_bits);
    range.max_exponent = 0;
  }
  const int bias = (1 << (spec.scale_bits - 1)) - 1;
  range.min_shared_exponent = -bias;
  range.max_shared_exponent = (1 << spec.scale_bits) - 2 - bias;
  return range;
}

std::string_view ScaleChoiceName(ScaleChoice choice) {
  return WordOf<ScaleChoice>(kScaleChoices, choice);
}
ScaleChoice ParseScaleChoice(std::string_view word) {
  return ParseWord<ScaleChoice>(kScaleChoices, word, "scale choice");
}
std::string_view RoundingModeName(RoundingMode mode) {
  return WordOf<RoundingMode>(kRoundingModes, mode);
}
RoundingMode ParseRoundingMode(std::string_view word) {
  return ParseWord<RoundingMode>(kRoundingModes, word, "rounding mode");
}

}  // namespace bitpress::formats
