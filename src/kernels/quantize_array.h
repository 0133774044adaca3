// Quantize-dequantize of an array of any shape, on the threads of a pool: what a tensor becomes
// that goes through a format, without a model around it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"

namespace bitpress::kernels {

// Formats without scales of calibration: blocks run along `axis` (counted from the end if negative;
// formats without blocks do not look at it). x and y are the whole arrays, row-major; they may be
// the same memory, but must not overlap otherwise. Throws Error(kInvalidArgument) if there is no
// such axis or the format is an integer one.
void QuantizeDequantize(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                        int64_t axis, const float* x, float* y, ThreadPool& pool);
// The same on IEEE half floats, computed in float32 and rounded back to nearest even.
void QuantizeDequantizeHalf(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                            int64_t axis, const uint16_t* x, uint16_t* y, ThreadPool& pool);

// Integers, whose scale (and zero point) follow from the smallest and largest finite value: of the
// whole array, or with an axis of each index along it. NaN becomes 0, infinity the largest value.
// x and y as above. Throws Error(kInvalidArgument) if there is no such axis.
void QuantizeDequantizeInteger(const formats::IntegerSpec& spec, std::span<const int64_t> dims,
                               std::optional<int64_t> axis, const float* x, float* y,
                               ThreadPool& pool);

}  // namespace bitpress::kernels
