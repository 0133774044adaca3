#include "ops/kv_caches.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/test_models.h"

namespace bitpress::ops {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns "past -> present, axis, what is appended" of each cache.
std::vector<std::string> CachesIn(const std::string& text) {
  const graph::Model model = graph::FromTextWithConstants(text);
  std::vector<std::string> found;
  for (const KvCache& cache : FindKvCaches(model)) {
    found.push_back(fmt::format("{} -> {}, {}, {}", cache.past_value(), cache.present_value(),
                                cache.channel_axis,
                                cache.appended ? cache.node.input(*cache.appended) : "nothing"));
  }
  return found;
}

std::string Grouped(const std::string& attributes) {
  return fmt::format(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[N,S,8] q, float[N,S,4] k, float[N,S,4] v, float[N,1,P,4] pk, float[N,1,P,4] pv,
        int32[N] lengths, int32 total) => (float[N,S,8] y, float[N,1,T,4] nk, float[N,1,T,4] nv)
{{
  y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1{}>(
      q, k, v, pk, pv, lengths, total)
}})",
                     attributes);
}

TEST(KvCaches, OfGroupQueryAttention) {
  EXPECT_THAT(CachesIn(Grouped("")), ElementsAre("pk -> nk, -1, k", "pv -> nv, -1, v"));
  // Turned keys are not those that the node reads.
  EXPECT_THAT(CachesIn(Grouped(", do_rotary = 1")),
              ElementsAre("pk -> nk, -1, nothing", "pv -> nv, -1, v"));
  const graph::Model model = graph::FromText(Grouped(""));
  EXPECT_TRUE(FindKvCaches(model)[0].takes_integers);
}

TEST(KvCaches, OfStandardAttention) {
  EXPECT_THAT(CachesIn(R"(<ir_version: 10, opset_import: ["" : 23]>
agraph (float[N,2,S,4] q, float[N,1,S,4] k, float[N,1,S,4] v, float[N,1,P,4] pk,
        float[N,1,P,4] pv) => (float[N,2,S,4] y, float[N,1,T,4] nk, float[N,1,T,4] nv)
{ y, nk, nv = Attention(q, k, v, , pk, pv) })"),
              ElementsAre("pk -> nk, -1, k", "pv -> nv, -1, v"));
}

TEST(KvCaches, OfConcat) {
  constexpr const char* kText = R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,2,S,4] k, float[N,2,{}] past) => (float[N,2,{}] present)
{{ present = Concat<axis = {}>({}) }})";
  EXPECT_THAT(CachesIn(fmt::format(kText, "P,4", "T,4", 2, "past, k")),
              ElementsAre("past -> present, -1, k"));
  // The positions come last, the channels before them.
  EXPECT_THAT(CachesIn(fmt::format(kText, "S,P", "S,T", -1, "past, k")),
              ElementsAre("past -> present, -2, k"));
  // A cache gets new positions from one place.
  EXPECT_THAT(CachesIn(fmt::format(kText, "P,4", "T,4", 2, "past, k, k")), IsEmpty());
}

TEST(KvCaches, OfAttentionWithoutOne) {
  EXPECT_THAT(CachesIn(R"(<ir_version: 10, opset_import: ["" : 23]>
agraph (float[N,2,S,4] q, float[N,1,S,4] k, float[N,1,S,4] v) => (float[N,2,S,4] y)
{ y = Attention(q, k, v) })"),
              IsEmpty());
}

}  // namespace
}  // namespace bitpress::ops
