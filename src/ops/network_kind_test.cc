// The kinds of small networks.
#include "ops/network_kind.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/test_models.h"

namespace bitpress::ops {
namespace {

NetworkKind KindIn(const std::string& text) {
  graph::Model model = graph::FromTextWithConstants(text);
  model.InferShapes();
  return KindOf(model);
}

TEST(NetworkKind, FollowsFromProducts) {
  EXPECT_EQ(KindIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1,3,8,8] x) => (float[1,4] y) <float[4,3,3,3] w, float[4,4] m>
{ c = Conv<pads = [1,1,1,1]>(x, w)  p = GlobalAveragePool(c)  f = Flatten(p)  y = MatMul(f, m) })"),
            NetworkKind::kConvolutional);
  EXPECT_EQ(KindIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,8] x) => (float[N,2] y) <float[8,4] a, float[4,2] b>
{ h = MatMul(x, a)  r = Relu(h)  y = MatMul(r, b) })"),
            NetworkKind::kTabular);
  EXPECT_EQ(KindIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[3,1,4] x) => (float[3,1,1,2] y) <float[1,8,4] w, float[1,8,2] r>
{ y, h, c = LSTM<hidden_size = 2>(x, w, r) })"),
            NetworkKind::kRecurrent);
  EXPECT_EQ(KindIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[3,4,5] x) => (float[5,1,3,2] y) <float[4,4,1] k, float[1,8,4] w, float[1,8,2] r>
{ c = Conv(x, k)  t = Transpose<perm = [2,0,1]>(c)  y, h, s = LSTM<hidden_size = 2>(t, w, r) })"),
            NetworkKind::kMixed);
}

// An attention of one head, whose output a projection reads.
constexpr const char* kAttention = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[B,S,8] x) => (float[B,S,8] y) <float[8,8] a, float[8,8] b, float[8,8] c, float[8,8] d>
{
  q = MatMul(x, a)  k = MatMul(x, b)  v = MatMul(x, c)
  s = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v)
  y = MatMul(s, d)
})";

TEST(NetworkKind, OfTransformers) {
  EXPECT_EQ(KindIn(kAttention), NetworkKind::kEncoder);
  EXPECT_EQ(KindIn(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[N,S,8] q, float[N,S,4] k, float[N,S,4] v, float[N,1,P,4] pk, float[N,1,P,4] pv,
        int32[N] lengths, int32 total, int64[N,S] ids)
    => (float[N,S,64] logits, float[N,1,T,4] nk, float[N,1,T,4] nv)
<float[64,8] table, float[8,8] w, float[8,4] u, float[8,64] h>
{
  x = Gather(table, ids)
  a = MatMul(x, w)  b = MatMul(x, u)  c = MatMul(x, u)
  s, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1>(
      a, b, c, pk, pv, lengths, total)
  o = MatMul(s, w)  m = Add(x, o)
  logits = MatMul(m, h)
})"),
            NetworkKind::kDecoder);
}

}  // namespace
}  // namespace bitpress::ops
