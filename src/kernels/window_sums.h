// Exact sums of floats of moderate size, as most activations are: of the numbers and of their
// squares, as integers. Statistics of channels are made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace bitpress::kernels {

// The exponent fields of the window: magnitudes from 2^-18 to below 2^11.
inline constexpr int kFirstWindowField = 109;
inline constexpr int kNumWindowFields = 29;
// The most elements of one call, whose sums fit 64 bits.
inline constexpr size_t kMostWindowElements = 512;

// Sums of integers t = x * 2^41, which have at most 52 bits, and of their squares: with
// t = high * 2^26 + low the sum of squares is
// high_squares * 2^52 + mixed * 2^27 + low_squares.
struct WindowSums {
  int64_t sum = 0;
  uint64_t high_squares = 0, mixed = 0, low_squares = 0;
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  bool operator==(const WindowSums&) const = default;
};

// Adds up some elements. Returns false, with unspecified sums, if one of them is neither zero nor
// within the window. -0 counts as +0. REQUIRES: values.size() <= kMostWindowElements.
bool AddInWindow(std::span<const float> values, WindowSums& sums);

}  // namespace bitpress::kernels
