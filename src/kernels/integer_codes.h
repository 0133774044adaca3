// Integer codes of arrays and what they mean, vectorized and on the threads of a pool: the fast
// twins of formats::ref::QuantizeInteger and DequantizeInteger, equal to them bit for bit on every
// instruction set. Weights and biases become integers here. Arrays are cut into tasks by their
// elements, so that an array with a single scale uses all threads too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::kernels {

// The layout in which elements of a row-major array [outer, axis, inner] share scales and zero
// points.
struct ParamsLayout {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;
  int64_t length = 1;          // neighbours along the axis that share parameters
  bool is_per_column = false;  // outer and inner have parameters of their own, too

  // Parts of the axis that share parameters. REQUIRES: axis > 0.
  int64_t num_parts() const { return (axis - 1) / length + 1; }
  // Returns which of the parameters an element has: [num_parts], or, per column, [outer,
  // num_parts, inner] in row-major order.
  size_t IndexOf(size_t element) const;
};

// codes[i] = saturate(round_half_even(x[i] / scale) + zero_point), of codes beyond int32 the low 32
// bits; y[i] = (code - zero_point) * scale. NaN takes the zero point. `codes` may be empty, and y
// may be the memory of x. REQUIRES: all spans have as many elements as the layout, `params` as many
// as it needs; scales are finite and not 0; codes and zero points have at most 33 bits.
void QuantizeIntegers(std::span<const float> x, const ParamsLayout& layout,
                      std::span<const formats::QParams> params, formats::CodeRange range,
                      std::span<int32_t> codes, std::span<float> y, ThreadPool& pool);

// y[i] = (codes[i] - zero_point) * scale. REQUIRES as above; codes are those of signed types, or of
// types of at most 16 bits.
void DequantizeIntegers(std::span<const int32_t> codes, const ParamsLayout& layout,
                        std::span<const formats::QParams> params, std::span<float> y,
                        ThreadPool& pool);

}  // namespace bitpress::kernels
