// The table of operators: rows that contradict each other or name nothing are found here. What
// readers make of the rows is tested where they are.
#include "ops/operator_traits.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "graph/test_models.h"
#include "ops/integer_operators.h"

namespace bitpress::ops {
namespace {

TEST(OperatorTraits, EachOperatorHasOneRow) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const OperatorTraits& row : AllOperatorTraits()) {
    EXPECT_TRUE(seen.emplace(row.domain, row.op_type).second) << row.op_type;
  }
}

TEST(OperatorTraits, RowsAgreeWithThemselves) {
  for (const OperatorTraits& row : AllOperatorTraits()) {
    const bool is_on_codes = row.codes.product != Product::kNone;
    EXPECT_FALSE(row.multiplies() && is_on_codes) << row.op_type;
    EXPECT_FALSE(row.is_product() && row.on_integers != OnIntegers::kFloats) << row.op_type;
    EXPECT_EQ(is_on_codes, row.codes.weight >= 0) << row.op_type;
    // An operator on codes stands for one that multiplies, computes, or joins.
    const bool has_form = row.is_product() || row.num_operands > 1 ||
                          row.on_integers == OnIntegers::kComputes || row.Is(kGivesScores);
    EXPECT_TRUE(row.qoperator.empty() || has_form) << row.op_type;
    EXPECT_FALSE(row.Is(kTakesCodes) && row.on_integers != OnIntegers::kMoves) << row.op_type;
    EXPECT_EQ(row.cache.past < 0, row.cache.present < 0) << row.op_type;
    EXPECT_FALSE(row.cache.past >= 0 && row.attention == Attention::kNone) << row.op_type;
    // Dynamic models multiply with operators that have rows of their own.
    if (!row.dynamic.empty()) {
      EXPECT_NE(TraitsNamed(row.dynamic).codes.product, Product::kNone) << row.op_type;
    }
  }
}

TEST(OperatorTraits, DomainsTellOperatorsOfOneNameApart) {
  const graph::Model model = graph::FromText(R"(
    <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "other" : 1]>
    g (float[N, 4, 8] x, float[8, 24] w, float[24] b) => (float[N, 4, 8] y)
    {
      [own] own = com.microsoft.Attention <num_heads = 2> (x, w, b)
      [conv] conv = other.Conv (own, w)
      [y] y = Relu (conv)
    })");
  EXPECT_EQ(TraitsOf(*model.Producer("own")).attention, Attention::kHoldsProjection);
  EXPECT_EQ(TraitsNamed("Attention").attention, Attention::kOfInputs);
  EXPECT_FALSE(TraitsOf(*model.Producer("conv")).is_product());
  EXPECT_TRUE(TraitsNamed("Conv").is_convolution());
  EXPECT_EQ(TraitsOf(*model.Producer("y")).on_integers, OnIntegers::kFuses);
  EXPECT_EQ(TraitsNamed("NoSuchOperator").product, Product::kNone);
}

TEST(OperatorTraits, ElementsAreMovedAsTheAttributesSay) {
  const graph::Model model = graph::FromText(R"(
    <ir_version: 8, opset_import: ["" : 19]>
    g (float[1, 4, 8, 8] x, float[4] s) => (float[1, 4, 8, 8] y)
    {
      near = Resize <mode = "nearest"> (x, , s)
      linear = Resize <mode = "linear"> (near, , s)
      largest = MaxPool <kernel_shape = [2, 2]> (linear)
      moved = Transpose (largest)
      cast = Cast <to = 1> (moved)
      joined = Concat <axis = 1> (cast, cast)
      pooled = AveragePool <kernel_shape = [2, 2], dilations = [2, 2]> (joined)
      y = Relu (pooled)
    })");
  const auto moves = [&](const char* value) { return MovesElements(*model.Producer(value)); };
  const auto passes = [&](const char* value) { return PassesElementsOn(*model.Producer(value)); };
  EXPECT_TRUE(moves("near"));
  EXPECT_FALSE(moves("linear"));
  EXPECT_TRUE(moves("largest"));
  EXPECT_FALSE(passes("largest"));  // it may leave the mask out
  EXPECT_TRUE(passes("moved"));
  EXPECT_TRUE(passes("cast"));
  EXPECT_FALSE(moves("joined"));
  EXPECT_TRUE(passes("joined"));
  EXPECT_FALSE(passes("y"));
  EXPECT_EQ(WhyNoIntegerForm(*model.Producer("pooled")), "it has dilations");
  EXPECT_EQ(WhyNoIntegerForm(*model.Producer("y")), "");
}

}  // namespace
}  // namespace bitpress::ops
