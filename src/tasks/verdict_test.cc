#include "tasks/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bitpress::tasks {
namespace {

TEST(Verdict, NamesLayersThatAreSlower) {
  EXPECT_EQ(
      SlowerLayers({{"a", "Conv", 3e-3, 1e-3},
                    {"b", "MatMul", 9.9e-3, 9e-3},  // a tenth
                    {"c", "Conv", 0.8e-3, 0.2e-3},
                    {"d", "Conv", 0.7e-3, 0.3e-3},
                    {"e", "Conv", 0.45e-3, 0.25e-3},
                    {"f", "Gemm", 0.01e-3, 0.02e-3}}),
      "slower than in the given model on this machine: 5 of 6 layers, 4.10 ms in all; most of "
      "it Conv 'a' 3.00 ms instead of 1.00 ms, MatMul 'b' 9.90 ms instead of 9.00 ms, Conv "
      "'c' 0.800 ms instead of 0.200 ms");
  EXPECT_EQ(SlowerLayers({{"a", "Conv", 3e-3, 1e-3}, {"b", "Conv", 1e-3, 1e-3}}),
            "slower than in the given model on this machine: 1 of 2 layers, 2.00 ms in all; Conv "
            "'a' 3.00 ms instead of 1.00 ms");
}

TEST(Verdict, NamesNoLayerForLittle) {
  EXPECT_EQ(SlowerLayers({}), "");
  EXPECT_EQ(SlowerLayers({{"large", "Conv", 10.9e-3, 10e-3}}), "") << "less than a tenth";
  EXPECT_EQ(SlowerLayers({{"small", "Conv", 0.09e-3, 0.01e-3}, {"rest", "Conv", 9e-3, 10e-3}}), "")
      << "less than a hundredth of the model";
  EXPECT_EQ(SlowerLayers({{"tiny", "Conv", 0.02e-3, 0.01e-3}}), "") << "microseconds";
}

}  // namespace
}  // namespace bitpress::tasks
