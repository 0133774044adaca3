// Adds terms to sums that do not depend on their order (base/digit_sums.h, the specification).
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitpress::kernels {

// The number of sums is a multiple of this; the caller pads.
inline constexpr size_t kDigitStep = 16;

// Adds the digits of terms[k] at `place` and the two below to digits[k], digits[size + k] and
// digits[2 * size + k]. Returns true. If a term is DigitLimit(place) or more, nothing is added, and
// it returns false. REQUIRES: the terms are finite, `size` is a multiple of kDigitStep, and no sum
// overflows (kMostNarrowTerms).
bool AddDigits(const float* terms, size_t size, int place, int32_t* digits);
// Returns the largest magnitude of the terms.
float LargestOf(const float* terms, size_t size);

}  // namespace bitpress::kernels
