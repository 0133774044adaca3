#include "weights/whole_numbers.h"

namespace bitpress::weights {

int WholeNumberBits(const formats::FormatSpec& spec) {
  double largest = 0;
  if (spec.has_float_elements()) {
    const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
    largest = std::ldexp(layout.max_value, layout.bias - 1 + layout.mantissa_bits);
  } else if (spec.is_block_float()) {
    const int most_shift = (1 << spec.sub_block_shift_bits) - 1;
    largest = std::ldexp((1 << (spec.element_bits - 1)) - 1, most_shift);
  } else {
    return spec.element_bits;
  }
  return 1 + static_cast<int>(std::ceil(std::log2(largest + 1)));
}

}  // namespace bitpress::weights
