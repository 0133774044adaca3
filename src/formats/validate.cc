// The check that the fields of a FormatSpec fit together.
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/block_scale.h"
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

// Returns whether formats with or without blocks have such elements.
bool IsElement(const FormatSpec& spec) {
  if (!spec.is_blocked()) return spec.is_integer() || spec.is_float();
  // OCP MX 1.0 table 1, and sign and magnitude.
  return spec.is_block_float() || spec.element_type == ElementType::kInt8 ||
         (spec.has_float_elements() && TraitsOf(spec.element_type).bits <= 8);
}

void ValidateElement(const FormatSpec& spec) {
  const ElementTraits& element = TraitsOf(spec.element_type);
  if (!IsElement(spec)) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': formats {} blocks have no element type {}",
         spec.name, spec.is_blocked() ? "with" : "without", element.name);
  }
  if (spec.is_block_float()) {
    // A float32 has 24 significant bits: more magnitude bits than 23 would store nothing.
    Require(spec.element_bits >= 2 && spec.element_bits <= 24, spec, "element_bits",
            spec.element_bits, "2 to 24 (sign and 1 to 23 magnitude bits)");
  } else {
    Require(spec.element_bits == element.bits, spec, "element_bits", spec.element_bits,
            fmt::format("{}, as {} has", element.bits, element.name));
  }
}

void ValidateSubBlocks(const FormatSpec& spec) {
  if (!spec.is_block_float()) {
    Require(spec.sub_block_size == 0, spec, "sub_block_size", spec.sub_block_size,
            "0 for these elements");
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
  if (spec.scale_bits == 0) {
    Require(spec.block_size == 0, spec, "block_size", spec.block_size, "0 without scales");
  } else {
    Require(spec.block_size >= 1 && spec.block_size <= kMaxBlockSize, spec, "block_size",
            spec.block_size, "1 to 65536");
    if (const std::string why = WhyNoScales(spec); !why.empty()) {
      Fail(ErrorCode::kInvalidArgument, "format '{}': {}", spec.name, why);
    }
  }
  ValidateElement(spec);
  ValidateSubBlocks(spec);
  if (spec.has_float_elements() && spec.rounding != RoundingMode::kHalfToEven) {
    Fail(ErrorCode::kInvalidArgument,
         "format '{}': floating-point elements round half to even; rounding '{}' is for integers",
         spec.name, RoundingModeName(spec.rounding));
  }
  if (spec.special_rule == (spec.is_blocked() ? SpecialRule::kSaturate : SpecialRule::kNanBlock)) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': special_rule {} is for formats {} blocks",
         spec.name, spec.is_blocked() ? "saturate" : "nan_block",
         spec.is_blocked() ? "without" : "with");
  }
}

}  // namespace bitpress::formats
