#include "kernels/digit_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/digit_sums.h"
#include "kernels/test_variants.h"

namespace bitpress::kernels {
namespace {

class DigitSumsTest : public TargetTest {};

// Every place takes terms of all magnitudes below its limit, ties and subnormal ones included.
TEST_P(DigitSumsTest, EqualsTheSpecification) {
  std::mt19937 random(1);
  for (int place = kLeastPlace; place <= kMostPlace; ++place) {
    for (const size_t size : {size_t{16}, size_t{64}}) {
      std::vector<int32_t> sums(3 * size, 5);
      std::vector<int32_t> expected = sums;
      for (int round = 0; round < 200; ++round) {
        std::vector<float> terms(size);
        for (float& x : terms) {
          x = std::bit_cast<float>(static_cast<uint32_t>(random()));
          if (random() % 4 == 0) x = std::ldexp(std::nearbyint(x) + 0.5F, 12 * place - 12);
          if (random() % 16 == 0) x = std::bit_cast<float>(static_cast<uint32_t>(random() % 100));
          if (!(std::fabs(x) < DigitLimit(place))) {
            x = std::ldexp(static_cast<float>(random() % 4096) - 2047.5F,
                           std::min(12 * place - 1, 115));
          }
        }
        ASSERT_TRUE(AddDigits(terms.data(), size, place, sums.data()));
        for (size_t k = 0; k < size; ++k) {
          const auto digits = DigitsOf(terms[k], place);
          for (size_t d = 0; d < kNumDigits; ++d) expected[d * size + k] += digits[d];
        }
        ASSERT_EQ(sums, expected) << place;
      }
    }
  }
}

TEST_P(DigitSumsTest, TermsThatAreTooLargeChangeNothing) {
  for (size_t at = 0; at < 32; ++at) {
    std::vector<float> terms(32, 1.0F);
    std::vector<int32_t> sums(3 * 32);
    terms[at] = -DigitLimit(0);
    EXPECT_FALSE(AddDigits(terms.data(), terms.size(), 0, sums.data()));
    EXPECT_EQ(sums, std::vector<int32_t>(3 * 32));
    EXPECT_EQ(LargestOf(terms.data(), terms.size()), DigitLimit(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, DigitSumsTest, testing::ValuesIn(SupportedTargets()),
                         NameOfTargetParam);

}  // namespace
}  // namespace bitpress::kernels
