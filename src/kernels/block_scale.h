// The rule that gives packing the scale of a block of quantized values from its largest magnitude.
// It works by integer arithmetic on float32 bits, in which doubling is adding one exponent.
// Internal to kernels/pack_tensor.h. It equals formats::ref::BlockCodec if it says that it fits.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/format_spec.h"
#include "kernels/pack_loops.h"

namespace bitpress::kernels {

// The range of a block's largest magnitude. Blocks outside, zeros apart, are left to the reference.
// Within it all powers of two and products below are normal float32.
constexpr int32_t kLeastAmax = 64 << kExponentShift;
constexpr int32_t kTopAmax = 225 << kExponentShift;

// Returns a magnitude as it counts for the block's exponent, as bits that compare as integers.
// Two's complement reaches a step further down than up, so that negative values count as that much
// less.
template <bool kTwosComplement>
inline int32_t CountedMagnitude(float y, int32_t reach_down) {
  const int32_t bits = std::bit_cast<int32_t>(y);
  const int32_t magnitude = bits & 0x7FFFFFFF;
  if constexpr (!kTwosComplement) return magnitude;
  return bits < 0 && magnitude > reach_down ? magnitude - reach_down : magnitude;
}

// The numbers of a format from which a block's scale follows.
struct ScaleRule {
  int32_t max_bits = 0;    // bits of the largest value at exponent 0
  int32_t reach_down = 0;  // argument of CountedMagnitude
  int least = 0, most = 0;
  int unit_exponent = 0;
  int32_t max_shift = 0;
  int32_t is_exponent = 1;  // 0: the reference knows how to choose the scales

  ScaleRule(const formats::FormatSpec& spec, const ElementParams& element)
      : max_bits(static_cast<int32_t>(element.max_bits)), unit_exponent(element.unit_exponent) {
    if (element.kind == ElementKind::kTwosComplement) {
      constexpr int32_t kTwo = 128 << kExponentShift;  // bits of 2.0f
      reach_down = kTwo - max_bits;
    }
    if (!spec.is_blocked()) return;
    is_exponent = spec.has_exponent_scales();
    least = formats::RangeOf(spec).min_shared_exponent;
    most = formats::RangeOf(spec).max_shared_exponent;
    max_shift = (1 << spec.sub_block_shift_bits) - 1;
  }

  // The numbers that follow from a block's amax.
  struct Chosen {
    int32_t scale;
    uint32_t inverse;
    int32_t limit;  // bits of the largest value at the block's exponent
    int32_t fits;   // 0 if the reference must do the block
  };
  // Has no jumps, so that loops over columns are vectorized.
  Chosen Choose(int32_t amax) const {
    const bool is_zero = amax == 0;
    // The smallest exponent with which amax is not above the largest value.
    const int32_t wanted = (amax - max_bits + (1 << kExponentShift) - 1) >> kExponentShift;
    const int32_t exponent = wanted < least ? least : wanted;
    const int32_t in_range = static_cast<int32_t>(amax >= kLeastAmax) &
                             static_cast<int32_t>(amax < kTopAmax) &
                             static_cast<int32_t>(exponent <= most);
    // Zeros store the least exponent. Their factor does not matter. Their limit is far above them,
    // so that sub-blocks get the largest shift.
    const int32_t used = is_zero ? 0 : exponent;
    return {is_zero ? 0 : exponent - least,
            static_cast<uint32_t>(127 - used - unit_exponent) << kExponentShift,
            static_cast<int32_t>(static_cast<uint32_t>(max_bits) +
                                 (static_cast<uint32_t>(used) << kExponentShift)),
            is_exponent & (static_cast<int32_t>(is_zero) | in_range)};
  }
  // Returns how often the limit can be halved without going below the sub-block's largest
  // magnitude.
  int32_t Shift(int32_t sub_amax, int32_t limit) const {
    const int32_t shift = (limit - sub_amax) >> kExponentShift;
    return shift < max_shift ? shift : max_shift;
  }
};

}  // namespace bitpress::kernels
