// Quantize-dequantize of an array of any shape, on the threads of a pool. Use it to see what a
// format makes of a tensor, without a model around it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::kernels {

// Quantizes and dequantizes an array in a format whose scales do not come from calibration. Blocks
// run along `axis`, which counts from the end if negative. Formats without blocks do not look at
// it. x and y are the whole arrays, row-major. They may be the same memory, but must not overlap
// otherwise. Throws Error(kInvalidArgument) if there is no such axis or the format is an integer
// one.
void QuantizeDequantize(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                        int64_t axis, const float* x, float* y, ThreadPool& pool);
// Does the same with IEEE half floats, computed in float32 and rounded back to nearest even.
void QuantizeDequantizeHalf(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                            int64_t axis, const uint16_t* x, uint16_t* y, ThreadPool& pool);

// Quantizes and dequantizes an array as integers. Scale and zero point follow from the smallest and
// largest finite value of the whole array, or with an axis of each index along it. NaN becomes 0,
// infinity the largest value. x and y are as above. Throws Error(kInvalidArgument) if there is no
// such axis.
void QuantizeDequantizeInteger(const formats::IntegerSpec& spec, std::span<const int64_t> dims,
                               std::optional<int64_t> axis, const float* x, float* y,
                               ThreadPool& pool);

}  // namespace bitpress::kernels
