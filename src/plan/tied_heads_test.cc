#include "plan/tied_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random_normal.h"
#include "graph/test_models.h"
#include "plan/test_support.h"

namespace bitpress::plan {
namespace {

constexpr int64_t kWords = 96;
constexpr int64_t kWidth = 32;

// Returns a lookup in a table and a head of the same numbers. `change` is added to one of them.
graph::Model Tied(float change = 0) {
  graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[B,S] ids) => (float[B,S,96] y) <float[96,32] table, float[32,96] head>
    { [look] x = Gather(table, ids)  r = Relu(x)  [multiply] y = MatMul(r, head) })");
  const std::vector<float> numbers = RandomNormal(kWords * kWidth, 1);
  Tensor table{DataType::kFloat, {kWords, kWidth}, std::vector<std::byte>(kWords * kWidth * 4)};
  Tensor head{DataType::kFloat, {kWidth, kWords}, std::vector<std::byte>(kWords * kWidth * 4)};
  for (int64_t row = 0; row < kWords; ++row) {
    for (int64_t column = 0; column < kWidth; ++column) {
      const float number = numbers[static_cast<size_t>(row * kWidth + column)];
      table.values<float>()[static_cast<size_t>(row * kWidth + column)] = number;
      head.values<float>()[static_cast<size_t>(column * kWords + row)] = number;
    }
  }
  head.values<float>()[5] += change;
  model.SetInitializer("table", std::move(table));
  model.SetInitializer("head", std::move(head));
  return model;
}

std::string HeadFormat(const graph::Model& model, const std::string& config,
                       const std::vector<std::string>& settings = {},
                       const std::vector<std::string>& rules = {}) {
  QuantConfig request = ConfigByName(config);
  for (const std::string& setting : settings) ApplySetting(request, setting);
  for (const std::string& rule : rules) request.rules.push_back(ParseRule(rule));
  return RowOf(MakePlan(request, model, "test"), "head").format;
}

TEST(TiedHeads, TakeTheWiderFormatOfTheirTable) {
  const graph::Model model = Tied();
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {"activations=none"}), "mxint8");
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1"), "mxint8");
  EXPECT_EQ(HeadFormat(model, "MX6"), "mxint8");
  EXPECT_EQ(HeadFormat(model, "INT4_WEIGHTS"), "uint8");
  EXPECT_EQ(HeadFormat(model, "MX4", {"activations=none", "embeddings=mx6"}), "mx6");
}

TEST(TiedHeads, TakeTheirActivationsAlong) {
  const graph::Model model = Tied();
  const auto activations = [&](const std::string& config, const std::string& rule = {}) {
    QuantConfig request = ConfigByName(config);
    if (!rule.empty()) request.rules.push_back(ParseRule(rule));
    return RowOf(MakePlan(request, model, "test"), "r").format;
  };
  EXPECT_EQ(activations("MXFP4E2M1"), "mxint8");
  EXPECT_EQ(activations("MX6"), "mxint8");
  EXPECT_EQ(activations("MXFP4E2M1", "names=multiply: activations=mxfp4_e2m1"), "mxfp4_e2m1");
  EXPECT_EQ(activations("MXFP4E2M1", "names=multiply: weights=mxfp4_e2m1"), "mxfp4_e2m1");
  EXPECT_EQ(activations("MXFP4E2M1", "names=multiply: weights=mxint8"), "mxfp4_e2m1");
}

TEST(TiedHeads, KeepTheirOwnFormat) {
  const graph::Model model = Tied();
  // The table has fewer bits, so many that products take longer, or none.
  EXPECT_EQ(HeadFormat(model, "INT8_WEIGHTS", {"embeddings=uint4"}), "int8");
  EXPECT_EQ(HeadFormat(model, "MX6", {"activations=none", "embeddings=bf16"}), "mx6");
  EXPECT_EQ(HeadFormat(model, "MX6", {"activations=none", "embeddings=none"}), "mx6");
  // A product from codes has blocks of one size on both sides.
  EXPECT_EQ(HeadFormat(model, "MX4", {"activations=mx9"}), "mx4");
  EXPECT_EQ(HeadFormat(model, "INT8", {"weights=int4", "embeddings=int8"}), "int4");
  // No budget is spent on them.
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {"mean_bits=4.6"}), "mxfp4_e2m1");
  // A rule says so.
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {}, {"names=multiply: weights=mxfp4_e2m1"}),
            "mxfp4_e2m1");
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {}, {"op_types=MatMul: activations=none"}), "mxint8");
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {}, {"names=multiply: exclude"}), "none");
  EXPECT_EQ(HeadFormat(model, "MXFP4E2M1", {"weights=none", "embeddings=mxint8"}), "none");
  // The numbers differ.
  EXPECT_EQ(HeadFormat(Tied(0.5F), "MXFP4E2M1"), "mxfp4_e2m1");
}

TEST(TiedHeads, ReadTheTableItself) {
  graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[B] ids) => (float[B,96] y) <float[96,32] table>
    { [look] x = Gather(table, ids)  r = Relu(x)  [multiply] y = Gemm<transB = 1>(r, table) })");
  const std::vector<float> numbers = RandomNormal(kWords * kWidth, 1);
  Tensor table{DataType::kFloat, {kWords, kWidth}, std::vector<std::byte>(kWords * kWidth * 4)};
  std::ranges::copy(numbers, table.values<float>().begin());
  model.SetInitializer("table", std::move(table));
  ASSERT_EQ(FindTiedHeads(model).size(), 1);
  const TensorPlan row = RowOf(PlanFor(model, "MXFP4E2M1", {"activations=none"}), "table");
  EXPECT_EQ(row.format, "mxint8");
  EXPECT_EQ(row.uses.size(), 2);
}

}  // namespace
}  // namespace bitpress::plan
