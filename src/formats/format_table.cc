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

FormatSpec Integer(const char* name, ElementType type, int bits, DataType onnx_type,
                   const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.family = Family::kInteger;
  spec.element_type = type;
  spec.element_bits = bits;
  spec.zero_rule = ZeroRule::kPositive;
  spec.special_rule = SpecialRule::kSaturate;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  return spec;
}

FormatSpec Float(const char* name, ElementType type, int bits, DataType onnx_type,
                 const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.family = Family::kFloat;
  spec.element_type = type;
  spec.element_bits = bits;
  spec.special_rule = bits == 8 ? SpecialRule::kSaturate : SpecialRule::kPass;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  return spec;
}

// OCP Microscaling Formats (MX) 1.0, table 1: blocks of 32, E8M0 scale.
FormatSpec Microscaling(const char* name, ElementType type, int bits, DataType onnx_type,
                        const char* quark) {
  FormatSpec spec;
  spec.name = name;
  spec.family = Family::kMicroscaling;
  spec.element_type = type;
  spec.element_bits = bits;
  spec.block_size = 32;
  spec.exponent_bits = 8;
  spec.zero_rule = type == ElementType::kInt8 ? ZeroRule::kPositive : ZeroRule::kKeepSign;
  spec.onnx_type = onnx_type;
  spec.quark_name = quark;
  return spec;
}

FormatSpec BlockFloat(std::string name, int element_bits, int block_size, int exponent_bits,
                      const char* quark) {
  FormatSpec spec;
  spec.name = std::move(name);
  spec.family = Family::kBlockFloat;
  spec.element_type = ElementType::kSignMagnitude;
  spec.element_bits = element_bits;
  spec.block_size = block_size;
  spec.exponent_bits = exponent_bits;
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
      Integer("int2", E::kInt2, 2, D::kInt2, ""),
      Integer("uint2", E::kUInt2, 2, D::kUInt2, ""),
      Integer("int4", E::kInt4, 4, D::kInt4, "QInt4"),
      Integer("uint4", E::kUInt4, 4, D::kUInt4, "QUInt4"),
      Integer("int8", E::kInt8, 8, D::kInt8, "QInt8"),
      Integer("uint8", E::kUInt8, 8, D::kUInt8, "QUInt8"),
      Integer("int16", E::kInt16, 16, D::kInt16, "QInt16"),
      Integer("uint16", E::kUInt16, 16, D::kUInt16, "QUInt16"),
      Integer("int32", E::kInt32, 32, D::kInt32, "QInt32"),
      Integer("uint32", E::kUInt32, 32, D::kUInt32, "QUInt32"),
      Float("fp16", E::kFloat16, 16, D::kFloat16, "QFloat16"),
      Float("bf16", E::kBFloat16, 16, D::kBFloat16, "QBFloat16"),
      Float("fp8_e4m3", E::kFloat8E4M3, 8, D::kFloat8E4M3FN, ""),
      Float("fp8_e5m2", E::kFloat8E5M2, 8, D::kFloat8E5M2, ""),
      BlockFloat("bfp16", 8, 8, 8, "QBFP"),
      SharedMicroexponent("mx4", 2, "QBFP"),
      SharedMicroexponent("mx6", 4, "QBFP"),
      SharedMicroexponent("mx9", 7, "QBFP"),
      Microscaling("mxfp8_e5m2", E::kFloat8E5M2, 8, D::kFloat8E5M2, "fp8_e5m2"),
      Microscaling("mxfp8_e4m3", E::kFloat8E4M3, 8, D::kFloat8E4M3FN, "fp8_e4m3"),
      Microscaling("mxfp6_e3m2", E::kFloat6E3M2, 6, D::kUndefined, "fp6_e3m2"),
      Microscaling("mxfp6_e2m3", E::kFloat6E2M3, 6, D::kUndefined, "fp6_e2m3"),
      Microscaling("mxfp4_e2m1", E::kFloat4E2M1, 4, D::kFloat4E2M1, "fp4_e2m1"),
      Microscaling("mxint8", E::kInt8, 8, D::kInt8, "int8"),
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
  if (is_blocked()) bits += static_cast<double>(exponent_bits) / block_size;
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

bool IsFloatElement(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat6E2M3:
    case ElementType::kFloat6E3M2:
    case ElementType::kFloat4E2M1:
      return true;
    default:
      return false;
  }
}

FloatLayout LayoutOf(ElementType type) {
  // IEEE 754-2019 (binary16), bfloat16, and OCP MX 1.0 sections 5.3.1 to 5.3.4.
  switch (type) {
    case ElementType::kFloat16:
      return {5, 10, 15, 15, 65504.0, true, true};
    case ElementType::kBFloat16:
      return {8, 7, 127, 127, std::ldexp(255.0, 120), true, true};
    case ElementType::kFloat8E4M3:
      return {4, 3, 7, 8, 448.0, false, true};
    case ElementType::kFloat8E5M2:
      return {5, 2, 15, 15, 57344.0, true, true};
    case ElementType::kFloat6E2M3:
      return {2, 3, 1, 2, 7.5, false, false};
    case ElementType::kFloat6E3M2:
      return {3, 2, 3, 4, 28.0, false, false};
    case ElementType::kFloat4E2M1:
      return {2, 1, 1, 2, 6.0, false, false};
    default:
      Fail(ErrorCode::kInvalidArgument, "{} is not a floating-point element type",
           ElementTypeName(type));
  }
}

std::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kInt2:
      return "INT2";
    case ElementType::kUInt2:
      return "UINT2";
    case ElementType::kInt4:
      return "INT4";
    case ElementType::kUInt4:
      return "UINT4";
    case ElementType::kInt8:
      return "INT8";
    case ElementType::kUInt8:
      return "UINT8";
    case ElementType::kInt16:
      return "INT16";
    case ElementType::kUInt16:
      return "UINT16";
    case ElementType::kInt32:
      return "INT32";
    case ElementType::kUInt32:
      return "UINT32";
    case ElementType::kFloat16:
      return "FLOAT16";
    case ElementType::kBFloat16:
      return "BFLOAT16";
    case ElementType::kFloat8E4M3:
      return "FLOAT8E4M3FN";
    case ElementType::kFloat8E5M2:
      return "FLOAT8E5M2";
    case ElementType::kFloat6E2M3:
      return "FLOAT6E2M3";
    case ElementType::kFloat6E3M2:
      return "FLOAT6E3M2";
    case ElementType::kFloat4E2M1:
      return "FLOAT4E2M1";
    case ElementType::kSignMagnitude:
      return "SIGN_MAGNITUDE";
  }
  return "UNKNOWN";
}

CodeRange IntegerRange(ElementType type) {
  switch (type) {
    case ElementType::kInt2:
      return {-2, 1};
    case ElementType::kUInt2:
      return {0, 3};
    case ElementType::kInt4:
      return {-8, 7};
    case ElementType::kUInt4:
      return {0, 15};
    case ElementType::kInt8:
      return {-128, 127};
    case ElementType::kUInt8:
      return {0, 255};
    case ElementType::kInt16:
      return {-32768, 32767};
    case ElementType::kUInt16:
      return {0, 65535};
    case ElementType::kInt32:
      return {-2147483648LL, 2147483647LL};
    case ElementType::kUInt32:
      return {0, 4294967295LL};
    default:
      Fail(ErrorCode::kInvalidArgument, "{} is not an integer element type", ElementTypeName(type));
  }
}

BlockRange RangeOf(const FormatSpec& spec) {
  BITPRESS_DCHECK(spec.is_blocked());
  BlockRange range;
  if (IsFloatElement(spec.element_type)) {
    const FloatLayout layout = LayoutOf(spec.element_type);
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
  const int bias = (1 << (spec.exponent_bits - 1)) - 1;
  range.min_shared_exponent = -bias;
  range.max_shared_exponent = (1 << spec.exponent_bits) - 2 - bias;
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
