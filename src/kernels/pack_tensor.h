// Packed bytes from whole tensors of quantized values and back, multi-threaded: the fast twins of
// formats::ref::PackTensor and UnpackTensor (formats/packed_tensor.h says what is stored), equal to
// them byte for byte and bit for bit for any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::kernels {

// Writes the bytes of a tensor seen as [outer, axis, inner] whose values y the format represents
// exactly. Throws Error(kInvalidArgument) as the reference does: the format is not packable, or
// with the lowest index of an element that has no exact code (`out` then holds nothing of use);
// also if a span has another size than formats::SizesOf says or y is not outer * axis * inner long.
// Takes at most one byte an element of memory, two for codes above 8 bits.
void PackTensor(const formats::FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                std::span<const float> y, const formats::PackedSpans& out, ThreadPool& pool);

// The values of packed bytes. Errors as above, but any bytes of the right sizes have values. The
// same memory.
void UnpackTensor(const formats::FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const formats::PackedView& packed, std::span<float> y, ThreadPool& pool);

}  // namespace bitpress::kernels
