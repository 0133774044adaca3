#include "plan/plan_caches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/test_models.h"
#include "plan/make_plan.h"

namespace bitpress::plan {
namespace {

using testing::HasSubstr;

constexpr const char* kGrouped = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[N,S,8] q, float[N,S,4] k, float[N,S,4] v, float[N,1,P,4] pk, float[N,1,P,4] pv,
        int32[N] lengths, int32 total) => (float[N,S,8] y, float[N,1,T,4] nk, float[N,1,T,4] nv)
{
  [attention] y, nk, nv = com.microsoft.GroupQueryAttention
      <num_heads = 2, kv_num_heads = 1, do_rotary = 1>(q, k, v, pk, pv, lengths, total)
})";
constexpr const char* kConcat = R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,2,S,32] k, float[N,2,P,32] past) => (float[N,2,T,32] present)
{ [join] present = Concat<axis = 2>(past, k) })";

QuantConfig ConfigWith(const std::string& assignment) {
  QuantConfig config;
  ApplySetting(config, assignment);
  return config;
}

TEST(PlanCaches, IntegersAreThoseOfTheOperator) {
  const graph::Model model = graph::FromText(kGrouped);
  QuantConfig config = ConfigWith("kv_cache=int4");
  ApplySetting(config, "kv_cache_granularity=per_tensor");
  const QuantPlan plan = MakePlan(config, model, "");
  ASSERT_EQ(plan.caches.size(), 2U);
  EXPECT_EQ(plan.caches[0].node, "attention");
  EXPECT_EQ(plan.caches[0].past, "pk");
  EXPECT_EQ(plan.caches[1].value, "nv");
  EXPECT_EQ(plan.caches[1].format, "int4");
  EXPECT_EQ(plan.caches[1].granularity, Granularity::kPerTensor);
  CheckFits(plan, model);
  EXPECT_EQ(FromJson(ToJson(plan)), plan);
}

TEST(PlanCaches, ScalesOfAPlanAreKept) {
  const graph::Model model = graph::FromText(kGrouped);
  QuantPlan plan = MakePlan(ConfigWith("kv_cache=int8"), model, "");
  plan.caches[0].scales = {0.5F, 0.25F, 0.125F, 2};
  EXPECT_EQ(FromJson(ToJson(plan)), plan);
  plan.caches[0].scales[1] = 0;
  EXPECT_THAT(graph::ErrorOf([&] { CheckFits(plan, model); }).what(),
              HasSubstr("caches[0] ('nk')"));
  plan.caches[0].scales.clear();
  for (auto* const format : {"none", "int4"}) {
    QuantPlan other = plan;
    other.caches[0].format = format;
    EXPECT_THAT(graph::ErrorOf([&] { CheckFits(other, model); }).what(),
                HasSubstr("keys and values of GroupQueryAttention 'attention' have one format"));
  }
  plan.caches[0].past = "pv";
  EXPECT_THAT(graph::ErrorOf([&] { CheckFits(plan, model); }).what(),
              HasSubstr("has no cache with the input 'pv'"));
}

TEST(PlanCaches, KeysAndValuesOfANodeAreAlike) {
  const graph::Model model = graph::FromText(kGrouped);
  // Turned keys cannot be rounded before they are turned; values can.
  const QuantPlan blocks = MakePlan(ConfigWith("kv_cache=mxint8"), model, "");
  ASSERT_EQ(blocks.caches.size(), 1U);
  EXPECT_THAT(blocks.caches[0].reason, HasSubstr("changes the keys"));
  ASSERT_EQ(blocks.tensors.size(), 1U);
  EXPECT_EQ(blocks.tensors[0].value, "v");
}

TEST(PlanCaches, BlocksRoundWhatEntersACacheOfFloats) {
  const graph::Model model = graph::FromText(kConcat);
  const QuantPlan plan = MakePlan(ConfigWith("kv_cache=mxint8"), model, "");
  EXPECT_TRUE(plan.caches.empty());
  ASSERT_EQ(plan.tensors.size(), 1U);
  EXPECT_EQ(plan.tensors[0].value, "k");
  EXPECT_EQ(plan.tensors[0].axis, 3);
  EXPECT_EQ(plan.tensors[0].uses, (std::vector<TensorUse>{{"join", "Concat", 1}}));
  const QuantPlan integers = MakePlan(ConfigWith("kv_cache=int8"), model, "");
  ASSERT_EQ(integers.caches.size(), 1U);
  EXPECT_THAT(integers.caches[0].reason, HasSubstr("Concat takes caches of floats only"));
}

TEST(PlanCaches, OtherIntegersAreAnError) {
  const graph::Model model = graph::FromText(kGrouped);
  EXPECT_THAT(graph::ErrorOf([&] { MakePlan(ConfigWith("kv_cache=uint8"), model, ""); }).what(),
              HasSubstr("the integers of caches are int8 and int4"));
}

TEST(PlanCaches, AModelWithoutCachesIsAnError) {
  const graph::Model model = graph::FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,4] x) => (float[N,4] y) { y = Relu(x) })");
  EXPECT_THAT(graph::ErrorOf([&] { MakePlan(ConfigWith("kv_cache=int8"), model, ""); }).what(),
              HasSubstr("the model has no key-value cache"));
}

}  // namespace
}  // namespace bitpress::plan
