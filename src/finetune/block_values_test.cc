// Blocks with attention give what ONNX Runtime gives, whose operator has no definition but its
// code.
#include "finetune/block_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/test_support.h"
#include "gradients/block.h"
#include "gradients/separate_sums.h"
#include "graph/test_models.h"
#include "runtime/session.h"

namespace bitpress::finetune {
namespace {

constexpr const char* kHead =
    "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g ";

graph::Model ModelOf(const std::string& signature, const std::string& body) {
  return graph::FromTextWithConstants(kHead + signature + body);
}

Tensor TensorOf(const gradients::Array<float>& array) {
  Tensor tensor;
  tensor.type = DataType::kFloat;
  tensor.dims = array.dims;
  const auto bytes = std::as_bytes(std::span(array.values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

// Fills constants of floats, and compares the outputs for random inputs of these shapes.
void ExpectOnnxRuntimesValues(graph::Model model, const std::vector<std::vector<int64_t>>& shapes) {
  uint32_t seed = 1;
  for (const std::string& name : model.InitializerNames()) {
    const graph::InitializerView view = model.Initializer(name);
    if (view.type != DataType::kFloat) continue;
    const std::vector<int64_t> dims(view.dims.begin(), view.dims.end());
    const std::vector<float> values =
        RandomNormal(static_cast<size_t>(NumElements(dims)), 50 + seed++);
    model.SetInitializer(name, DataType::kFloat, dims, std::as_bytes(std::span(values)));
  }
  runtime::Session session = runtime::Session::FromModel(model, {.num_threads = 1});
  gradients::SeparateSums(model);
  ThreadPool pool(2);
  gradients::Block<float> block(model, {model.Nodes(), model.OutputNames()}, {}, {}, pool);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    ASSERT_EQ(block.inputs()[i], session.inputs()[i].name);
    block.Input(i).Reshape(shapes[i]);
    block.Input(i).values = RandomNormal(block.Input(i).size(), seed++);
    inputs.push_back(TensorOf(block.Input(i)));
  }
  block.Forward();
  const std::vector<Tensor> outputs = session.Run(inputs);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::span<const float> wanted = outputs[k].values<float>();
    ASSERT_EQ(block.Output(k).dims, outputs[k].dims);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(block.Output(k).values[i], wanted[i], 1e-4 * (1 + std::abs(wanted[i])))
          << "output " << k << ", element " << i;
    }
  }
}

TEST(BlockValues, AreOnnxRuntimesForAttentionWithSharedKeys) {
  ExpectOnnxRuntimesValues(
      ModelOf(
          "(float[2,9,64] q, float[2,9,32] k, float[2,9,32] v) => (float[2,9,64] y, "
          "float[2,2,9,16] pk, float[2,2,9,16] pv) ",
          "<int32[2] n = {8, 8}, int32[1] t = {9}, float[12,8] cos, float[12,8] sin> { y, pk, pv "
          "= com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>"
          "(q, k, v, , , n, t, cos, sin) }"),
      {{2, 9, 64}, {2, 9, 32}, {2, 9, 32}});
}

TEST(BlockValues, AreOnnxRuntimesForPackedAttentionInAWindow) {
  ExpectOnnxRuntimesValues(
      ModelOf(
          "(float[1,9,64] q) => (float[1,9,32] y, float[1,1,9,16] pk, float[1,1,9,16] pv) ",
          "<int32[1] n = {8}, int32[1] t = {9}, float[12,8] cos, float[12,8] sin> { y, pk, pv = "
          "com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1, do_rotary=1, "
          "rotary_interleaved=1, scale=0.4, local_window_size=3>(q, , , , , n, t, cos, sin) }"),
      {{1, 9, 64}});
}

TEST(BlockValues, AreOnnxRuntimesBehindACache) {
  ExpectOnnxRuntimesValues(
      ModelOf(
          "(float[1,3,32] q, float[1,3,32] k, float[1,3,32] v, float[1,2,4,16] ck, "
          "float[1,2,4,16] cv) => (float[1,3,32] y, float[1,2,7,16] pk, float[1,2,7,16] pv) ",
          "<int32[1] n = {6}, int32[1] t = {7}, float[12,8] cos, float[12,8] sin> { y, pk, pv = "
          "com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2, do_rotary=1>"
          "(q, k, v, ck, cv, n, t, cos, sin) }"),
      {{1, 3, 32}, {1, 3, 32}, {1, 3, 32}, {1, 2, 4, 16}, {1, 2, 4, 16}});
}

TEST(BlockValues, AreOnnxRuntimesForNormsThatAddFirst) {
  ExpectOnnxRuntimesValues(
      ModelOf(
          "(float[2,3,8] x, float[2,3,8] r) => (float[2,3,8] y, float[2,3,8] s, float[2,3,8] z) ",
          "<float[8] f, float[8] c, float[8] e> { y, , , s = "
          "com.microsoft.SkipSimplifiedLayerNormalization<epsilon=0.1>(x, r, f) z = "
          "com.microsoft.SkipLayerNormalization<epsilon=0.2>(y, s, f, c, e) }"),
      {{2, 3, 8}, {2, 3, 8}});
}

}  // namespace
}  // namespace bitpress::finetune
