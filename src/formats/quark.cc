#include "formats/quark.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::formats {
namespace {

int CheckedInt(std::string_view attribute, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    Fail(ErrorCode::kInvalidArgument, "attribute {} is {}, expected {} to {}", attribute, value,
         least, most);
  }
  return static_cast<int>(value);
}

RoundingMode QuarkRounding(int64_t mode) {
  switch (CheckedInt("rounding_mode", mode, 0, 2)) {
    case 0:
      return RoundingMode::kHalfAwayFromZero;
    case 1:
      return RoundingMode::kHalfUp;
    default:
      return RoundingMode::kHalfToEven;
  }
}

}  // namespace

FormatSpec QuarkSpec(const QuarkMxAttributes& attributes) {
  const RoundingMode rounding = QuarkRounding(attributes.rounding_mode);
  std::vector<std::string> words;
  for (const FormatSpec& row : AllFormats()) {
    if (!row.is_blocked() || row.is_block_float() || row.quark_name.empty()) continue;
    words.push_back(row.quark_name);
    if (row.quark_name != attributes.element_dtype) continue;
    FormatSpec spec = row;
    spec.block_size = CheckedInt("block_size", attributes.block_size, 1, kMaxBlockSize);
    spec.scale_choice = ScaleChoice::kFloor;
    spec.limit_shared_exponent = false;
    if (spec.has_float_elements()) {
      spec.zero_rule = ZeroRule::kPositive;
    } else {
      spec.rounding = rounding;
      spec.zero_rule =
          rounding == RoundingMode::kHalfToEven ? ZeroRule::kQuarkNearest : ZeroRule::kKeepSign;
    }
    return spec;
  }
  Fail(ErrorCode::kInvalidArgument, "attribute element_dtype is '{}', expected one of {}{}",
       attributes.element_dtype, Join(words, ", "), DidYouMean(attributes.element_dtype, words));
}

FormatSpec QuarkSpec(const QuarkBfpAttributes& attributes) {
  const std::vector<std::string> methods = {"to_bfp", "to_bfp_prime", "to_bfp_prime_shared"};
  if (std::find(methods.begin(), methods.end(), attributes.bfp_method) == methods.end()) {
    Fail(ErrorCode::kInvalidArgument, "attribute bfp_method is '{}', expected one of {}{}",
         attributes.bfp_method, Join(methods, ", "), DidYouMean(attributes.bfp_method, methods));
  }
  const bool prime = attributes.bfp_method != "to_bfp";
  FormatSpec spec;
  spec.name = fmt::format("{}(bit_width={})", attributes.bfp_method, attributes.bit_width);
  spec.element_type = ElementType::kSignMagnitude;
  spec.scale_bits = 8;
  spec.element_bits = CheckedInt("bit_width", attributes.bit_width, 10, 32) - spec.scale_bits;
  spec.block_size = CheckedInt("block_size", attributes.block_size, 1, kMaxBlockSize);
  spec.rounding = QuarkRounding(attributes.rounding_mode);
  if (prime) {
    spec.sub_block_size =
        CheckedInt("sub_block_size", attributes.sub_block_size, 1, spec.block_size);
    spec.sub_block_shift_bits =
        CheckedInt("sub_block_shift_bits", attributes.sub_block_shift_bits, 0, 4);
    spec.special_rule = SpecialRule::kNanBlock;
    spec.flush_subnormals = true;
  } else if (spec.rounding == RoundingMode::kHalfToEven) {
    spec.zero_rule = ZeroRule::kQuarkNearest;
  }
  Validate(spec);
  return spec;
}

}  // namespace bitpress::formats
