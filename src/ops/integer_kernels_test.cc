// Which elements of a weight are neighbours along a sum. That ONNX Runtime's kernels agree is
// tested on these themselves, in tests/no_vnni/kernels_test.py.
#include "ops/integer_kernels.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace bitpress::ops {
namespace {

std::vector<size_t> ElementsOf(const SumLayout& sums, int64_t sum) {
  std::vector<size_t> elements;
  for (int64_t i = 0; i < sums.length; ++i) elements.push_back(sums.ElementOf(sum, i));
  return elements;
}

// Expects that every element of the weight belongs to exactly one sum.
void ExpectPartition(const SumLayout& sums, size_t num_elements) {
  std::set<size_t> seen;
  for (int64_t sum = 0; sum < sums.num_sums; ++sum) {
    for (const size_t element : ElementsOf(sums, sum)) {
      EXPECT_LT(element, num_elements);
      EXPECT_TRUE(seen.insert(element).second);
    }
  }
  EXPECT_EQ(seen.size(), num_elements);
}

TEST(IntegerKernels, MatricesAddAlongTheirRows) {
  const std::vector<int64_t> dims = {2, 3, 4};
  const SumLayout sums = MatrixSums(dims, SummedDim::kSecondLast);
  ExpectPartition(sums, 24);
  EXPECT_EQ(ElementsOf(sums, 1), (std::vector<size_t>{1, 5, 9}));
  EXPECT_EQ(ElementsOf(sums, 5), (std::vector<size_t>{13, 17, 21}));
  EXPECT_EQ(sums.ChannelOf(5, 2), 2u);
  const SumLayout transposed = MatrixSums(dims, SummedDim::kLast);
  ExpectPartition(transposed, 24);
  EXPECT_EQ(ElementsOf(transposed, 1), (std::vector<size_t>{4, 5, 6, 7}));
}

TEST(IntegerKernels, ConvolutionsAddChannelsFirst) {
  const std::vector<int64_t> dims = {4, 3, 1, 2};  // two groups of three channels
  const std::optional<SumLayout> sums = ConvSums(dims, 2);
  ASSERT_TRUE(sums);
  ExpectPartition(*sums, 24);
  // All channels of the first position come before those of the second one.
  EXPECT_EQ(ElementsOf(*sums, 1), (std::vector<size_t>{6, 8, 10, 7, 9, 11}));
  EXPECT_EQ(sums->ChannelOf(1, 4), 1u);
  EXPECT_EQ(sums->ChannelOf(2, 4), 4u);
}

TEST(IntegerKernels, DepthwiseConvolutionsNeverSaturate) {
  EXPECT_FALSE(ConvSums(std::vector<int64_t>{8, 1, 3, 3}, 8));
  EXPECT_TRUE(ConvSums(std::vector<int64_t>{16, 1, 3, 3}, 8));  // two outputs of each channel
  EXPECT_TRUE(ConvSums(std::vector<int64_t>{8, 1, 3, 3}, 1));
}

}  // namespace
}  // namespace bitpress::ops
