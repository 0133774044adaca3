// The tests of kernels that treat tensors as [outer, axis, inner] share this.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/float_bits.h"

namespace bitpress::kernels {

struct Shape {
  int64_t outer, axis, inner;
  size_t count() const { return static_cast<size_t>(outer * axis * inner); }
  std::string name() const { return fmt::format("[{}, {}, {}]", outer, axis, inner); }
};

// NaN is NaN, whatever its sign and payload.
inline testing::AssertionResult SameValues(const std::vector<float>& expected, const float* found) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (formats::FloatBits(expected[i]) == formats::FloatBits(found[i])) continue;
    if (formats::IsNan(expected[i]) && formats::IsNan(found[i])) continue;
    return testing::AssertionFailure() << fmt::format(
               "element {}: {} ({:#010x}) instead of {} ({:#010x})", i, found[i],
               formats::FloatBits(found[i]), expected[i], formats::FloatBits(expected[i]));
  }
  return testing::AssertionSuccess();
}

}  // namespace bitpress::kernels
