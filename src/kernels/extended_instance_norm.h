// The instance normalization of Quark's operator ExtendedInstanceNormalization, which imitates an
// accelerator that computes with bfloat16: inputs, scale, bias and most results in between are
// rounded to bfloat16, and the variance is computed from parts of numbers in bfloat16.
#pragma once

#include <cstddef>

namespace bitpress::kernels {

// Sets y[i] = scale * (x[i] - mean) / sqrt(variance + epsilon) + bias for the `count` values of one
// channel of one sample, with the roundings of Quark 0.13. The results equal Quark's bit for bit.
// They follow these rules, which differ from an exact computation:
// - Sums run from the first value to the last, in float32.
// - The variance is the mean of the squares less the square of the mean. Where it comes out below
//   -epsilon, all results are NaN.
// - The conversion to bfloat16 rounds ties to even and treats NaN as a number. A NaN whose payload
//   lies in its low 16 bits becomes an infinity, and 0x7FFFFFFF becomes zero.
// The inverse of the standard deviation is std::pow of the C library, rounded to bfloat16.
void ExtendedInstanceNorm(const float* x, float* y, size_t count, float scale, float bias,
                          float epsilon);

}  // namespace bitpress::kernels
