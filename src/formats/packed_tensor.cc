#include "formats/packed_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "formats/block_scale.h"
#include "formats/float_bits.h"
#include "formats/pack.h"
#include "formats/reference.h"

namespace bitpress::formats {
namespace {

// Codes of more than kPlaneBits bits take two planes. Codes of more than kMaxBits are not packable.
constexpr int kPlaneBits = 8;
constexpr int kMaxBits = 16;

void RequirePackable(const FormatSpec& spec) {
  if (const std::string why = WhyNotPackable(spec); !why.empty()) {
    Fail(ErrorCode::kInvalidArgument, "format '{}' has no packed form: {}", spec.name, why);
  }
}

// Returns the factors' product. Throws if it does not fit the sizes of this machine's memory.
size_t CheckedProduct(const FormatSpec& spec, std::initializer_list<int64_t> factors) {
  constexpr uint64_t kMost = std::numeric_limits<std::ptrdiff_t>::max();
  uint64_t product = 1;
  bool fits = true;
  for (const int64_t factor : factors) {
    if (factor == 0) return 0;
    fits = fits && factor > 0 && static_cast<uint64_t>(factor) <= kMost / product;
    if (fits) product *= static_cast<uint64_t>(factor);
  }
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "packing as {}: the shape's bytes do not fit memory",
         spec.name);
  }
  return static_cast<size_t>(product);
}

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

std::string WhyNotPackable(const FormatSpec& spec) {
  if (spec.is_integer()) return "its scales come from calibration, not from blocks";
  if (spec.element_bits > kMaxBits) {
    return fmt::format("its codes have {} bits, at most {} can be stored", spec.element_bits,
                       kMaxBits);
  }
  return "";
}

bool HasShifts(const FormatSpec& spec) {
  return spec.sub_block_size > 0 && spec.sub_block_shift_bits > 0;
}

std::vector<PackedPart> PartsOf(const FormatSpec& spec) {
  std::vector<PackedPart> parts{PackedPart::kCodes};
  if (LowCodePlaneBits(spec) > 0) parts.push_back(PackedPart::kLowCodes);
  if (spec.is_blocked()) parts.push_back(PackedPart::kScales);
  if (HasShifts(spec)) parts.push_back(PackedPart::kShifts);
  return parts;
}

int CodePlaneBits(const FormatSpec& spec) {
  BITPRESS_DCHECK(WhyNotPackable(spec).empty());
  return spec.is_blocked() ? std::min(spec.element_bits, kPlaneBits) : spec.element_bits;
}

int LowCodePlaneBits(const FormatSpec& spec) { return spec.element_bits - CodePlaneBits(spec); }

PackedSizes SizesOf(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner) {
  RequirePackable(spec);
  if (outer < 0 || axis < 0 || inner < 0) {
    Fail(ErrorCode::kInvalidArgument, "packing as {}: shape [{}, {}, {}] has a negative dimension",
         spec.name, outer, axis, inner);
  }
  PackedSizes sizes;
  if (!spec.is_blocked()) {
    sizes.codes = CheckedProduct(spec, {outer, axis, inner, spec.element_bits / 8});
    return sizes;
  }
  // Four bytes an element are more than all parts together.
  CheckedProduct(spec, {outer, axis, inner, 4});
  const size_t num_elements = CheckedProduct(spec, {outer, axis, inner});
  sizes.codes = PackedBytes(num_elements, CodePlaneBits(spec));
  if (LowCodePlaneBits(spec) > 0) {
    sizes.low_codes = PackedBytes(num_elements, LowCodePlaneBits(spec));
  }
  sizes.scales = CheckedProduct(spec, {outer, CeilDivide(axis, spec.block_size), inner});
  if (HasShifts(spec)) {
    sizes.shifts =
        PackedBytes(CheckedProduct(spec, {outer, CeilDivide(axis, spec.sub_block_size), inner}),
                    spec.sub_block_shift_bits);
  }
  return sizes;
}

void CheckPackedSizes(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                      size_t num_elements, const PackedSizes& found) {
  const PackedSizes sizes = SizesOf(spec, outer, axis, inner);
  const size_t expected = CheckedProduct(spec, {outer, axis, inner});
  if (num_elements != expected) {
    Fail(ErrorCode::kInvalidArgument, "packing as {}: [{}, {}, {}] has {} elements, not {}",
         spec.name, outer, axis, inner, expected, num_elements);
  }
  if (found == sizes) return;
  Fail(ErrorCode::kInvalidArgument,
       "packing as {}: [{}, {}, {}] takes {} + {} + {} + {} bytes of codes, low codes, scales and "
       "shifts, not {} + {} + {} + {}",
       spec.name, outer, axis, inner, sizes.codes, sizes.low_codes, sizes.scales, sizes.shifts,
       found.codes, found.low_codes, found.scales, found.shifts);
}

std::vector<float> ElementTable(const FormatSpec& spec) {
  RequirePackable(spec);
  if (CodePlaneBits(spec) > kPlaneBits) {
    Fail(ErrorCode::kInvalidArgument, "format '{}': codes of 16 bits have no table of values",
         spec.name);
  }
  std::vector<float> table(size_t{1} << CodePlaneBits(spec));
  for (uint32_t code = 0; code < table.size(); ++code) {
    table[code] = static_cast<float>(ref::ElementOf(spec, code << LowCodePlaneBits(spec)));
  }
  return table;
}

std::array<float, 256> ScaleTable(const FormatSpec& spec) {
  RequirePackable(spec);
  if (!spec.is_blocked()) {
    Fail(ErrorCode::kInvalidArgument, "format '{}' has no blocks and therefore no scales",
         spec.name);
  }
  const int unit_bits = spec.has_float_elements() ? 0 : RangeOf(spec).fraction_bits;
  std::array<float, 256> table;
  for (uint32_t code = 0; code < table.size(); ++code) {
    table[code] = RoundToFloat(std::ldexp(DecodeScale(spec, code), -unit_bits));
  }
  return table;
}

void FailNotRepresentable(const FormatSpec& spec, size_t index, float value) {
  Fail(ErrorCode::kInvalidArgument,
       "element {} ({}) has no exact code in {}: it or its block was not quantized to this format",
       index, value, spec.name);
}

}  // namespace bitpress::formats
