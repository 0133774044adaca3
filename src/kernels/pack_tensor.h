// Packing of whole tensors of quantized values into bytes, and back, on many threads. These are the
// fast twins of formats::ref::PackTensor and UnpackTensor, equal to them byte for byte and bit for
// bit for any number of threads. formats/packed_tensor.h defines the bytes.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::kernels {

// Writes the bytes of a tensor seen as [outer, axis, inner] whose values y the format represents
// exactly. Throws Error(kInvalidArgument) as the reference does: if the format is not packable, or
// with the lowest index of an element that has no exact code (`out` then holds nothing of use).
// Throws also if a span has another size than formats::SizesOf says or y is not outer * axis *
// inner long. Takes at most one byte of memory an element, two for codes above 8 bits.
void PackTensor(const formats::FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                std::span<const float> y, const formats::PackedSpans& out, ThreadPool& pool);

// Writes the values of packed bytes. Throws as PackTensor, but any bytes of the right sizes have
// values. Takes as much memory.
void UnpackTensor(const formats::FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const formats::PackedView& packed, std::span<float> y, ThreadPool& pool);

}  // namespace bitpress::kernels
