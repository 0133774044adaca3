// The check that the fields of a FormatSpec fit together.
#include <string_view>

#include "base/error.h"
#include "formats/format_spec.h"

namespace bitpress::formats {
namespace {

void Require(bool ok, const FormatSpec& spec, std::string_view field, int64_t value,
             std::string_view wanted) {
  if (!ok) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': {} is {}, but it must be {}", spec.name, field,
         value, wanted);
  }
}

// Returns the bits of a code, or 0 if the type leaves them to the format.
int BitsOf(ElementType type) {
  if (type == ElementType::kSignMagnitude) return 0;
  if (IsFloatElement(type)) {
    const FloatLayout layout = LayoutOf(type);
    return 1 + layout.exponent_bits + layout.mantissa_bits;
  }
  const CodeRange range = IntegerRange(type);
  int bits = 1;
  while ((int64_t{1} << bits) <= range.quant_max - range.quant_min) ++bits;
  return bits;
}

bool IsElementOf(Family family, ElementType type) {
  const bool is_sign_magnitude = type == ElementType::kSignMagnitude;
  switch (family) {
    case Family::kInteger:
      return !IsFloatElement(type) && !is_sign_magnitude;
    case Family::kFloat:
      return IsFloatElement(type);
    case Family::kMicroscaling:  // OCP MX 1.0 table 1
      return type == ElementType::kInt8 || (IsFloatElement(type) && BitsOf(type) <= 8);
    case Family::kBlockFloat:
      return is_sign_magnitude;
  }
  return false;
}

void ValidateElement(const FormatSpec& spec) {
  if (!IsElementOf(spec.family, spec.element_type)) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': its family has no element type {}", spec.name,
         ElementTypeName(spec.element_type));
  }
  if (spec.family == Family::kBlockFloat) {
    // A float32 has 24 significant bits: more magnitude bits than 23 would store nothing.
    Require(spec.element_bits >= 2 && spec.element_bits <= 24, spec, "element_bits",
            spec.element_bits, "2 to 24 (sign and 1 to 23 magnitude bits)");
  } else {
    const int bits = BitsOf(spec.element_type);
    Require(spec.element_bits == bits, spec, "element_bits", spec.element_bits,
            fmt::format("{}, as {} has", bits, ElementTypeName(spec.element_type)));
  }
}

void ValidateSubBlocks(const FormatSpec& spec) {
  if (spec.family != Family::kBlockFloat) {
    Require(spec.sub_block_size == 0, spec, "sub_block_size", spec.sub_block_size,
            "0 for this family");
    return;
  }
  Require(spec.sub_block_shift_bits >= 0 && spec.sub_block_shift_bits <= 4, spec,
          "sub_block_shift_bits", spec.sub_block_shift_bits, "0 to 4");
  Require(spec.sub_block_size >= 0 && spec.sub_block_size <= spec.block_size, spec,
          "sub_block_size", spec.sub_block_size, "between 0 and block_size");
  Require(spec.sub_block_size == 0 || spec.block_size % spec.sub_block_size == 0, spec,
          "sub_block_size", spec.sub_block_size, "a divisor of block_size");
}

}  // namespace

void Validate(const FormatSpec& spec) {
  const bool is_block_family =
      spec.family == Family::kMicroscaling || spec.family == Family::kBlockFloat;
  if (is_block_family) {
    Require(spec.block_size >= 1 && spec.block_size <= kMaxBlockSize, spec, "block_size",
            spec.block_size, "1 to 65536");
    Require(spec.exponent_bits >= 2 && spec.exponent_bits <= 8, spec, "exponent_bits",
            spec.exponent_bits, "2 to 8");
  } else {
    Require(spec.block_size == 0, spec, "block_size", spec.block_size, "0 for this family");
  }
  ValidateElement(spec);
  ValidateSubBlocks(spec);
  if (IsFloatElement(spec.element_type) && spec.rounding != RoundingMode::kHalfToEven) {
    Fail(ErrorCode::kInvalidArgument,
         "format '{}': floating-point elements round half to even; rounding '{}' is for integers",
         spec.name, RoundingModeName(spec.rounding));
  }
  if (spec.special_rule == (is_block_family ? SpecialRule::kSaturate : SpecialRule::kNanBlock)) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': special_rule {} is for formats {} blocks",
         spec.name, is_block_family ? "saturate" : "nan_block",
         is_block_family ? "without" : "with");
  }
}

}  // namespace bitpress::formats
