// The batch of a model, in the cases in which its callers once disagreed.
#include "ops/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bitpress::ops {
namespace {

size_t BatchOf(const std::vector<std::vector<int64_t>>& inputs) {
  FixedBatch batch;
  for (const std::vector<int64_t>& dims : inputs) batch.AddInput(dims);
  return batch.num_samples();
}

TEST(FixedBatch, IsTheFirstDimensionOfAllInputs) {
  EXPECT_EQ(BatchOf({}), 0);
  EXPECT_EQ(BatchOf({{-1, 3}, {0, 4}}), 0) << "free";
  EXPECT_EQ(BatchOf({{8, 3}}), 8);
  EXPECT_EQ(BatchOf({{8, 3}, {8}, {8, 2, 2}}), 8);
}

TEST(FixedBatch, FreeInputsAndScalarsFollowTheOthers) {
  for (const std::vector<int64_t>& other : {std::vector<int64_t>{-1, 4}, {}}) {
    EXPECT_EQ(BatchOf({{8, 3}, other}), 8);
    EXPECT_EQ(BatchOf({other, {8, 3}}), 8);
  }
}

TEST(FixedBatch, DifferentFirstDimensionsAreOneSample) {
  EXPECT_EQ(BatchOf({{8, 3}, {2, 3}}), 1);
  EXPECT_EQ(BatchOf({{2, 3}, {8, 3}, {8, 3}}), 1);
  EXPECT_EQ(BatchOf({{1, 128}, {128}, {-1}}), 1);
}

TEST(FixedBatch, OfAModel) {
  // x is [N, 3] and k [1].
  const graph::Model model =
      graph::Model::Load(std::string(BITPRESS_SOURCE_DIR) + "/tests/data/runtime/affine.onnx");
  EXPECT_EQ(FixedBatchOf(model), 1);
}

}  // namespace
}  // namespace bitpress::ops
