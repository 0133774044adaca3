#include "gradients/separate_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/test_models.h"

namespace bitpress::gradients {
namespace {

std::vector<std::string> TypesOf(const graph::Model& model) {
  std::vector<std::string> types;
  for (const graph::Node& node : model.Nodes()) types.push_back(node.op_type());
  return types;
}

TEST(SeparateSums, GiveTheSumItsNameOrANewOne) {
  graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (float[2,3] x, "
      "float[2,3] r) => (float[2,3] y) <float[3] f> { [a] m, , , s = "
      "com.microsoft.SkipSimplifiedLayerNormalization(x, r, f) t = Add(m, s) [b] y = "
      "com.microsoft.SkipSimplifiedLayerNormalization(t, m, f) }");
  SeparateSums(model);
  EXPECT_THAT(TypesOf(model), testing::ElementsAre("Add", "SimplifiedLayerNormalization", "Add",
                                                   "Add", "SimplifiedLayerNormalization"));
  const std::vector<graph::Node> nodes = model.Nodes();
  EXPECT_EQ(nodes[0].output(0), "s");
  EXPECT_EQ(nodes[1].name(), "a");
  EXPECT_EQ(nodes[1].output(0), "m");
  EXPECT_EQ(nodes[4].name(), "b");
  EXPECT_EQ(nodes[4].input(0), nodes[3].output(0));
  EXPECT_EQ(model.InfoOf(nodes[3].output(0)).type, DataType::kUndefined);
  model.Check();
}

TEST(SeparateSums, KeepBiases) {
  graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g (float[2,3] x, "
      "float[2,3] r) => (float[2,3] y) <float[3] f, float[3] c, float[3] e> { y = "
      "com.microsoft.SkipLayerNormalization(x, r, f, c, e) }");
  SeparateSums(model);
  EXPECT_THAT(TypesOf(model), testing::ElementsAre("Add", "Add", "LayerNormalization"));
  const std::vector<graph::Node> nodes = model.Nodes();
  EXPECT_EQ(nodes[1].input(1), "e");
  EXPECT_EQ(nodes[2].input(2), "c");
  EXPECT_EQ(nodes[2].output(0), "y");
}

}  // namespace
}  // namespace bitpress::gradients
