// The tests of products and of convolutions in blocks share this: each runs on every instruction
// set of this processor, with and without dot products of bytes.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/block_products.h"
#include "kernels/cpu_target.h"

namespace bitpress::kernels {

struct Variant {
  std::string target;
  bool has_dot;
};

inline std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const std::string& target : SupportedTargets()) {
    variants.push_back({target, false});
    UseTarget(target);
    if (HasDotProducts()) variants.push_back({target, true});
  }
  UseTarget("");
  return variants;
}

class VariantTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    UseTarget(GetParam().target);
    UseDotProducts(GetParam().has_dot);
    ASSERT_EQ(HasDotProducts(), GetParam().has_dot);
  }
  void TearDown() override {
    UseTarget("");
    UseDotProducts(true);
  }
};

inline std::string NameOf(const testing::TestParamInfo<Variant>& variant) {
  return variant.param.target + (variant.param.has_dot ? "_dot" : "");
}

inline void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << ": " << found[i] << ", not " << expected[i];
  }
}

}  // namespace bitpress::kernels
