// Tests of the losses of sparse pairs against dot products by definition.
#include "kernels/pair_saturation.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "formats/pair_sums.h"

namespace bitpress::kernels {
namespace {

template <typename T>
std::vector<T> Codes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> codes(count);
  for (T& code : codes) {
    // Many are large, so that sums saturate.
    const uint32_t draw = random() % 4;
    code = static_cast<T>(draw == 0   ? std::numeric_limits<T>::max()
                          : draw == 1 ? std::numeric_limits<T>::min()
                                      : static_cast<T>(random()));
  }
  return codes;
}

int32_t LossByDefinition(std::span<const uint8_t> x, std::span<const int8_t> w) {
  return formats::SaturatingDot(x, w) - std::inner_product(x.begin(), x.end(), w.begin(), 0);
}

// Returns all pairs of `weights`, elements of one sum in order, that can saturate.
void AppendPairs(int32_t sum, std::span<const int8_t> weights, int32_t channels,
                 std::vector<SaturatingPair>& pairs) {
  for (size_t i = 0; i + 1 < weights.size(); i += 2) {
    if (formats::FitsPairSum({weights[i], weights[i + 1]}, {})) continue;
    const auto first = static_cast<int32_t>(i);
    pairs.push_back({sum,
                     {first % channels, (first + 1) % channels},
                     {first / channels, (first + 1) / channels},
                     {weights[i], weights[i + 1]}});
  }
}

TEST(PairSaturation, MatrixProducts) {
  constexpr int64_t kRows = 5, kChannels = 37, kSums = 4;
  const auto x = Codes<uint8_t>(kRows * kChannels, 1);
  const auto w = Codes<int8_t>(kSums * kChannels, 2);
  std::vector<SaturatingPair> pairs;
  for (int32_t sum = 0; sum < kSums; ++sum) {
    AppendPairs(sum, std::span(w).subspan(static_cast<size_t>(sum) * kChannels, kChannels),
                kChannels, pairs);
  }
  std::vector<int32_t> loss(kRows * kSums);
  MatrixSaturation(pairs, x.data(), kRows, kChannels, kSums, loss.data());
  bool is_any = false;
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t sum = 0; sum < kSums; ++sum) {
      const int32_t wanted = LossByDefinition(std::span(x).subspan(row * kChannels, kChannels),
                                              std::span(w).subspan(sum * kChannels, kChannels));
      EXPECT_EQ(loss[row * kSums + sum], wanted);
      is_any = is_any || wanted != 0;
    }
  }
  EXPECT_TRUE(is_any);
}

TEST(PairSaturation, Convolutions) {
  constexpr int32_t kChannels = 3;
  constexpr uint8_t kPadding = 200;
  const ConvWindow window{{7, 6}, {4, 3}, {3, 2}, {2, 3}, {1, 2}, {2, 1}};
  const auto image = Codes<uint8_t>(kChannels * 7 * 6, 3);
  // The order is that of the sum: [3, 2, channels].
  const auto w = Codes<int8_t>(3 * 2 * kChannels, 4);
  std::vector<SaturatingPair> pairs;
  AppendPairs(0, w, kChannels, pairs);
  std::vector<int32_t> loss(12);
  ConvSaturation(pairs, image.data(), window, kPadding, loss.data());
  bool is_any = false;
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      std::vector<uint8_t> x;
      for (int64_t ky = 0; ky < 3; ++ky) {
        for (int64_t kx = 0; kx < 2; ++kx) {
          for (int64_t channel = 0; channel < kChannels; ++channel) {
            const int64_t y = row * 2 + ky - 2;
            const int64_t at = column * 3 + kx * 2 - 1;
            const bool is_inside = y >= 0 && y < 7 && at >= 0 && at < 6;
            x.push_back(is_inside ? image[static_cast<size_t>((channel * 7 + y) * 6 + at)]
                                  : kPadding);
          }
        }
      }
      const int32_t wanted = LossByDefinition(x, w);
      EXPECT_EQ(loss[static_cast<size_t>(row * 3 + column)], wanted);
      is_any = is_any || wanted != 0;
    }
  }
  EXPECT_TRUE(is_any);
}

}  // namespace
}  // namespace bitpress::kernels
