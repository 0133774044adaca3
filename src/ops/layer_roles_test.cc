// Roles of layers in small transformers: the same ones for every form of export.
#include "ops/layer_roles.h"

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

// Returns "attn_q 0: q", the role, layer and name of each node that has a role, in graph order.
std::vector<std::string> RolesIn(const std::string& text) {
  const graph::Model model = graph::FromTextWithConstants(text);
  const LayerRoles roles(model);
  std::vector<std::string> found;
  for (const graph::Node& node : model.AllNodes()) {
    const std::optional<LayerPlace> place = roles.Of(node);
    if (!place) continue;
    const std::string layer = place->layer ? fmt::format(" {}", *place->layer) : "";
    found.push_back(fmt::format("{}{}: {}", LayerRoleName(place->role), layer, node.name()));
  }
  return found;
}

// Matches the roles of a decoder of two layers whose matrices stand apart.
auto AreOfTwoLayers() {
  return ElementsAre("embedding: look", "attn_q 0: q0", "attn_k 0: k0", "attn_v 0: v0",
                     "attn_o 0: o0", "mlp_gate 0: gate0", "mlp_up 0: up0", "mlp_down 0: down0",
                     "attn_q 1: q1", "attn_k 1: k1", "attn_v 1: v1", "attn_o 1: o1",
                     "mlp_gate 1: gate1", "mlp_up 1: up1", "mlp_down 1: down1", "lm_head: head");
}

// Returns the text `count` times, with the number of the layer for `%`, and the next one for `^`.
std::string Repeat(const std::string& layer, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (const char c : layer) {
      if (c == '%') {
        text += std::to_string(i);
      } else if (c == '^') {
        text += std::to_string(i + 1);
      } else {
        text += c;
      }
    }
  }
  return text;
}

constexpr const char* kGroupedHead =
    R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (int64[B,S] ids, int32[B] lengths, int32 total) => (float[B,S,64] logits)
<float[64,8] table, float[8] n, float[8,8] w, float[8,16] a, float[16,8] b, float[8,64] h,
 float[4,4] cosines>
{
  [look] x0 = Gather(table, ids)
)";

TEST(LayerRoles, OfGroupQueryAttention) {
  // GenAI's form: the sum is the fourth output of the normalization.
  const std::string layers = Repeat(R"(
  [q%] q%v = MatMul(n%v, w)
  [k%] k%v = MatMul(n%v, w)
  [v%] v%v = MatMul(n%v, w)
  a%v = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>
        (q%v, k%v, v%v, , , lengths, total, cosines, cosines)
  [o%] o%v = MatMul(a%v, w)
  m%v, u%1, u%2, s%v = com.microsoft.SkipSimplifiedLayerNormalization(x%, o%v, n)
  [gate%] g%v = MatMul(m%v, a)
  [up%] u%v = MatMul(m%v, a)
  t%v = Sigmoid(g%v)
  f%v = Mul(g%v, t%v)
  p%v = Mul(f%v, u%v)
  [down%] d%v = MatMul(p%v, b)
  n^v, e%1, e%2, x^ = com.microsoft.SkipSimplifiedLayerNormalization(s%v, d%v, n)
)",
                                    2);
  EXPECT_THAT(RolesIn(std::string(kGroupedHead) + "n0v = SimplifiedLayerNormalization(x0, n)\n" +
                      layers + "[head] logits = MatMul(n2v, h)\n}"),
              AreOfTwoLayers());
}

TEST(LayerRoles, OfMergedMatricesBesideEachOther) {
  // One matrix for queries, keys and values, one for gate and up, and attention and MLP read the
  // same state, in either order.
  const std::string layers = Repeat(R"(
  [gate_up%] gu% = MatMul(x%, gu)
  g%, u% = Split<axis = -1, num_outputs = 2>(gu%)
  t% = Gelu(g%)
  p% = Mul(t%, u%)
  [down%] d% = MatMul(p%, b)
  [qkv%] qkv%v = MatMul(x%, wide)
  q%, k%, v% = Split<axis = -1, num_outputs = 3>(qkv%v)
  a% = Attention<q_num_heads = 2, kv_num_heads = 2>(q%, k%, v%)
  [o%] o%v = MatMul(a%, w)
  both% = Add(o%v, d%)
  x^ = Add(x%, both%)
)",
                                    2);
  EXPECT_THAT(
      RolesIn(R"(<ir_version: 11, opset_import: ["" : 23]>
agraph (int64[B,S] ids) => (float[B,S,64] logits)
<float[64,8] table, float[8,8] w, float[8,24] wide, float[8,32] gu, float[16,8] b, float[8,64] h>
{
  [look] x0 = Gather(table, ids)
)" + layers + "[head] logits = MatMul(x2, h)\n}"),
      ElementsAre("embedding: look", "mlp_gate_up 0: gate_up0", "mlp_down 0: down0",
                  "attn_qkv 0: qkv0", "attn_o 0: o0", "mlp_gate_up 1: gate_up1",
                  "mlp_down 1: down1", "attn_qkv 1: qkv1", "attn_o 1: o1", "lm_head: head"));
}

// Rotary positions, a cache, grouped heads, and a mask, all of plain operators.
TEST(LayerRoles, OfPlainOperators) {
  const std::string layers = Repeat(R"(
  sq%0 = Mul(x%, x%)
  me% = ReduceMean<axes = [-1]>(sq%0)
  me1% = Add(me%, eps)
  ro% = Sqrt(me1%)
  nn% = Div(x%, ro%)
  n%v = Mul(nn%, n)
  [q%] q%v = MatMul(n%v, w)
  q%b = Add(q%v, n)
  [k%] k%v = MatMul(n%v, w)
  [v%] v%v = MatMul(n%v, w)
  qs% = Shape(x%)
  q%h = Reshape(q%b, qs%)
  qt% = Neg(q%h)
  q%c = Mul(q%h, cos)
  q%s = Mul(qt%, sin)
  q%r = Add(q%c, q%s)
  k%c = Mul(k%v, cos)
  kt% = Neg(k%v)
  k%s = Mul(kt%, sin)
  k%r = Add(k%c, k%s)
  kk% = Concat<axis = 1>(past, k%r)
  kp% = Transpose<perm = [0, 2, 1]>(kk%)
  sc% = MatMul(q%r, kp%)
  sd% = Mul(sc%, eps)
  sm% = Add(sd%, mask)
  pr% = Softmax<axis = -1>(sm%)
  vv% = Concat<axis = 1>(past, v%v)
  a% = MatMul(pr%, vv%)
  [o%] o%v = MatMul(a%, w)
  s%v = Add(x%, o%v)
  [gate%] g% = MatMul(s%v, a)
  [up%] u% = MatMul(s%v, a)
  t% = Sigmoid(g%)
  f% = Mul(g%, t%)
  p% = Mul(f%, u%)
  [down%] d% = MatMul(p%, b)
  x^ = Add(s%v, d%)
)",
                                    2);
  EXPECT_THAT(RolesIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (int64[B,S] ids, int64[B,S] positions, float[B,P,8] past, float[S,T] mask)
  => (float[B,S,64] logits)
<float[64,8] table, float[16,8] cosines, float[16,8] sines, float[8] n, float eps, float[8,8] w,
 float[8,16] a, float[16,8] b>
{
  [look] x0 = Gather(table, ids)
  [cosines] cos = Gather(cosines, positions)
  [sines] sin = Gather(sines, positions)
)" + layers + R"(
  turned = Transpose<perm = [1, 0]>(table)
  [head] logits = MatMul(x2, turned)
})"),
              AreOfTwoLayers());
}

// BERT: three tables, biases, normalization behind the sums, Gelu of standard operators, and a
// classifier behind a pooler, which is no MLP.
TEST(LayerRoles, OfAnEncoder) {
  const std::string layers = Repeat(R"(
  [q%] q%v = MatMul(x%, w)
  [k%] k%v = MatMul(x%, w)
  [v%] v%v = MatMul(x%, w)
  kp% = Transpose<perm = [0, 2, 1]>(k%v)
  sc% = MatMul(q%v, kp%)
  pr% = Softmax<axis = -1>(sc%)
  a% = MatMul(pr%, v%v)
  [o%] o%v = MatMul(a%, w)
  ob% = Add(n, o%v)
  r% = Add(ob%, x%)
  y% = LayerNormalization(r%, n, n)
  [fc1_%] u% = MatMul(y%, a)
  ub% = Add(u%, an)
  ud% = Div(ub%, root)
  ue% = Erf(ud%)
  u1% = Add(ue%, one)
  um% = Mul(ub%, u1%)
  [fc2_%] d% = MatMul(um%, b)
  db% = Add(n, d%)
  dr% = Add(db%, y%)
  x^ = LayerNormalization(dr%, n, n)
)",
                                    2);
  EXPECT_THAT(RolesIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (int64[B,S] ids, int64[B,S] types) => (float[B,2] y)
<float[64,8] table, float[2,8] kinds, float[1,5,8] places, float[8] n, float[16] an, float root,
 float one, float[8,8] w, float[8,16] a, float[16,8] b, float[8,2] c, int64 zero>
{
  [look] e0 = Gather(table, ids)
  [kind] e1 = Gather(kinds, types)
  e2 = Add(e0, e1)
  e3 = Add(e2, places)
  x0 = LayerNormalization(e3, n, n)
)" + layers + R"(
  first = Gather<axis = 1>(x2, zero)
  [pool] p = MatMul(first, w)
  tanh = Tanh(p)
  [classify] y = MatMul(tanh, c)
})"),
              ElementsAre("embedding: look", "embedding: kind", "attn_q 0: q0", "attn_k 0: k0",
                          "attn_v 0: v0", "attn_o 0: o0", "mlp_up 0: fc1_0", "mlp_down 0: fc2_0",
                          "attn_q 1: q1", "attn_k 1: k1", "attn_v 1: v1", "attn_o 1: o1",
                          "mlp_up 1: fc1_1", "mlp_down 1: fc2_1"));
}

TEST(LayerRoles, OfADecoderThatReadsAnEncoder) {
  const std::string layers = Repeat(R"(
  [q%] q%v = MatMul(x%, w)
  [k%] k%v = MatMul(x%, w)
  [v%] v%v = MatMul(x%, w)
  a% = com.microsoft.MultiHeadAttention<num_heads = 2>(q%v, k%v, v%v)
  [o%] o%v = MatMul(a%, w)
  y% = Add(x%, o%v)
  [cross_q%] cq%v = MatMul(y%, w)
  [cross_kv%] ckv%v = MatMul(encoded, wide)
  ck%, cv% = Split<axis = -1, num_outputs = 2>(ckv%v)
  c% = com.microsoft.MultiHeadAttention<num_heads = 2>(cq%v, ck%, cv%)
  [cross_o%] co%v = MatMul(c%, w)
  z% = Add(y%, co%v)
  [fc1_%] u% = MatMul(z%, a)
  t% = Relu(u%)
  [fc2_%] d% = MatMul(t%, b)
  x^ = Add(z%, d%)
)",
                                    2);
  EXPECT_THAT(
      RolesIn(R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
agraph (int64[B,S] ids, float[B,T,8] encoded) => (float[B,S,8] y)
<float[64,8] table, float[8,8] w, float[8,16] wide, float[8,16] a, float[16,8] b>
{
  [look] x0 = Gather(table, ids)
)" + layers + "y = Identity(x2)\n}"),
      ElementsAre("embedding: look", "attn_q 0: q0", "attn_k 0: k0", "attn_v 0: v0", "attn_o 0: o0",
                  "attn_q 0: cross_q0", "attn_kv 0: cross_kv0", "attn_o 0: cross_o0",
                  "mlp_up 0: fc1_0", "mlp_down 0: fc2_0", "attn_q 1: q1", "attn_k 1: k1",
                  "attn_v 1: v1", "attn_o 1: o1", "attn_q 1: cross_q1", "attn_kv 1: cross_kv1",
                  "attn_o 1: cross_o1", "mlp_up 1: fc1_1", "mlp_down 1: fc2_1"));
}

TEST(LayerRoles, AreNoneInOtherNetworks) {
  EXPECT_THAT(RolesIn(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,3,8,8] x) => (float[N,10] y)
<float[4,3,3,3] k, float[4,10] w, float[10] b, float[10,10] v>
{
  c = Conv(x, k)
  r = Relu(c)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  h = Gemm(f, w, b)
  g = Relu(h)
  y = MatMul(g, v)
})"),
              IsEmpty());
}

}  // namespace
}  // namespace bitpress::ops
