// The tests of kernels share this: each kernel runs on every instruction set of this processor, and
// products and convolutions in blocks run with and without dot products of bytes too. References
// are slow, and so what they give is computed once for all of these.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/block_products.h"
#include "kernels/cpu_target.h"

namespace bitpress::kernels {

// Calls function() on every instruction set.
template <typename Function>
void OnEveryTarget(Function&& function) {
  for (const std::string& target : SupportedTargets()) {
    SCOPED_TRACE(target);
    UseTarget(target);
    function();
    if (testing::Test::HasFatalFailure()) break;
  }
  UseTarget("");
}

// Does the same with dot products of bytes and without, where the processor has them.
template <typename Function>
void OnEveryVariant(Function&& function) {
  OnEveryTarget([&] {
    for (const bool has_dot : {false, true}) {
      UseDotProducts(has_dot);
      // Without dot products AMX and AVX3_BF16 are AVX3.
      const bool is_avx3 = CurrentTarget() != CurrentVectors();
      if (HasDotProducts() != has_dot || (is_avx3 && !has_dot)) continue;
      SCOPED_TRACE(has_dot ? "with dot products" : "without dot products");
      function();
      if (testing::Test::HasFatalFailure()) break;
    }
    UseDotProducts(true);
  });
}

// A fixture of tests that have each instruction set as their parameter.
class TargetTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

inline std::string NameOfTargetParam(const testing::TestParamInfo<std::string>& target) {
  return target.param;
}

inline void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    ASSERT_TRUE(std::isnan(found[i]) && std::isnan(expected[i]))
        << "element " << i << ": " << found[i] << ", not " << expected[i];
  }
}

}  // namespace bitpress::kernels
