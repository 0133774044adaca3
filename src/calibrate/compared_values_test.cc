#include "calibrate/compared_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/test_support.h"
#include "graph/test_models.h"

namespace bitpress::calibrate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

graph::Model Inferred(const std::string& text) {
  graph::Model model = graph::FromText(text);
  model.InferShapes();
  return model;
}

std::vector<std::string> Values(const std::vector<ComparedValue>& compared) {
  std::vector<std::string> values;
  for (const ComparedValue& one : compared) values.push_back(one.value);
  return values;
}

std::vector<ComparedValue> Detector(const std::string& last) {
  return ComparedValues(Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8,4] x) => (float[1,3,6] y)
    <float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, int64[1] k = {3}, int64[1] last = {2},
     int64[3] wide = {1,3,4}>
    { [boxes] boxes = MatMul(x, w)
      [products] products = MatMul(x, w)
      [scores] scores = Sigmoid(products)
      [best] best = ReduceMax<axes = [2], keepdims = 0>(scores)
      [sort] top, places = TopK<axis = 1>(best, k)
      [column] column = Unsqueeze(places, last)
      [places4] places4 = Expand(column, wide)
      [sorted] sorted = GatherElements<axis = 1>(boxes, places4)
      [top3] top3 = Unsqueeze(top, last)
      )" + last + " }"));
}

TEST(ComparedValues, AreTheOutputsOfMostModels) {
  const auto compared = ComparedValues(Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,4] x) => (float[2,4] s, float[2,4] y) { s = Relu(x) y = Softmax(s) })"));
  EXPECT_THAT(Values(compared), ElementsAre("s", "y"));
  EXPECT_EQ(compared[1].Name(), "output 'y'");
  EXPECT_FALSE(compared[1].reader);
  EXPECT_THAT(compared[1].parts, IsEmpty());
}

TEST(ComparedValues, StandInFrontOfASort) {
  const auto compared = Detector("[rows] y = Concat<axis = 2>(sorted, top3, top3)");
  EXPECT_THAT(Values(compared), ElementsAre("best", "boxes"));
  EXPECT_EQ(compared[0].output, "y");
  EXPECT_EQ(compared[0].reader->node, "sort");
  EXPECT_EQ(compared[1].reader->node, "sorted");
  EXPECT_EQ(compared[0].Name(), "'best', in front of TopK and output 'y',");
}

TEST(ComparedValues, AreOutputsOfProductsBehindASort) {
  EXPECT_THAT(Values(Detector("[second] y = MatMul(sorted, w)")), ElementsAre("y"));
}

TEST(ComparedValues, SayWhatWholeNumbersAreChosenFrom) {
  const auto compared = ComparedValues(Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,4] x) => (int64[2,1] y, float[2,4] s)
    { s = Sigmoid(x) t = Softmax(s) y = ArgMax<axis = 1>(t) })"));
  EXPECT_THAT(Values(compared), ElementsAre("t", "s"));
}

TEST(ComparedValues, HaveThePartsOfAConcat) {
  const auto compared = ComparedValues(Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2,3] a, float[1,5,3] b) => (float[1,3,7] y)
    { c = Concat<axis = 1>(a, b) y = Transpose<perm = [0, 2, 1]>(c) })"));
  ASSERT_EQ(compared.size(), 1U);
  EXPECT_THAT(compared[0].parts, ElementsAre(TensorPart{{{2, 0, 2}}}, TensorPart{{{2, 2, 7}}}));
}

// The levels of a detector, each of which puts boxes beside scores.
TEST(ComparedValues, HaveThePartsOfPartsThroughAReshape) {
  const auto compared = ComparedValues(Inferred(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2,2,4] a, float[1,2,2,1] b, float[1,3,5] c) => (float[1,7,5] y)
    <int64[3] flat = {1,4,5}>
    { d = Concat<axis = -1>(a, b) e = Reshape(d, flat) y = Concat<axis = 1>(e, c) })"));
  ASSERT_EQ(compared.size(), 1U);
  EXPECT_THAT(compared[0].parts,
              ElementsAre(TensorPart{{{1, 0, 4}, {2, 0, 4}}}, TensorPart{{{1, 0, 4}, {2, 4, 5}}},
                          TensorPart{{{1, 4, 7}}}));
}

class PartsTest : public testing::Test {
 protected:
  ComparedValue compared_{"y", "y", {}, {TensorPart{{{1, 0, 2}}}, TensorPart{{{1, 2, 3}}}}};
  Tensor wanted_ = MakeTensor(DataType::kFloat, {2, 3}, std::vector<float>{90, 80, 1, 70, 60, 0});
};

TEST_F(PartsTest, ALoudPartDoesNotHideAQuietOne) {
  ForgetEqualParts(compared_, wanted_);
  const Tensor found =
      MakeTensor(DataType::kFloat, {2, 3}, std::vector<float>{90, 80, 0, 70, 60, 0});
  const auto errors = ErrorsOf(compared_, wanted_, found);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].Noise(), 0);
  EXPECT_EQ(errors[0].signal, 90 * 90 + 80 * 80 + 70 * 70 + 60 * 60);
  EXPECT_EQ(errors[1].Noise(), 1);
}

TEST_F(PartsTest, EqualPartsAreOneWhole) {
  const Tensor example = MakeTensor(DataType::kFloat, {2, 3}, std::vector<float>(6, 1.5F));
  ForgetEqualParts(compared_, example);
  EXPECT_EQ(ErrorsOf(compared_, wanted_, wanted_).size(), 1U);
}

TEST_F(PartsTest, OtherShapesHaveNoErrors) {
  ForgetEqualParts(compared_, wanted_);
  const Tensor found = MakeTensor(DataType::kFloat, {2, 2}, std::vector<float>(4));
  for (const OutputError& error : ErrorsOf(compared_, wanted_, found)) EXPECT_EQ(error.Noise(), 0);
}

}  // namespace
}  // namespace bitpress::calibrate
