// Divisions of sizes that round up.
#pragma once

#include <cstddef>

namespace bitpress {

constexpr size_t CeilDivide(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t RoundUp(size_t a, size_t b) { return CeilDivide(a, b) * b; }

}  // namespace bitpress
