#include "deploy/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "graph/clean_up.h"

namespace bitpress::deploy {
namespace {

using testing::ElementsAre;

struct NodeText {
  std::string name, op_type;
  std::vector<std::string> inputs;
  std::string output;
  std::string domain = "";
};

graph::Model ModelOf(const std::vector<NodeText>& nodes) {
  graph::Model model = graph::Model::Load(BITPRESS_SOURCE_DIR "/tests/data/evaluate/identity.onnx");
  model.SetOpsetImport("com.microsoft.nchwc", 1);
  model.SetOpsetImport("com.microsoft", 1);
  graph::Node end = model.Nodes().front();
  constexpr std::array<int64_t, 4> kDims = {1, 1, 1, 1};
  model.SetInitializer("w", DataType::kFloat, kDims, std::as_bytes(std::span("\1\2\3", 4)));
  for (const NodeText& node : nodes) {
    model.InsertNode({node.name, node.op_type, node.domain, node.inputs, {node.output}, {}}, end);
  }
  return model;
}

// stem -> Clip -> expand -> Add of both -> head, which reads no third input
graph::Model Given() {
  graph::Model model = ModelOf({{"stem", "Conv", {"x", "w"}, "a"},
                                {"clip", "Clip", {"a"}, "b"},
                                {"", "Conv", {"b", "w"}, "c"},
                                {"add", "Add", {"c", "b"}, "d"},
                                {"head", "MatMul", {"d", "w", ""}, "e"}});
  graph::NameNodes(model);
  return model;
}

constexpr const char* kLayout = "com.microsoft.nchwc";
constexpr const char* kFused = "com.microsoft";

TEST(LayerTimes, AddUpWhatBelongsToALayer) {
  const LayerMap layers(Given());
  const std::vector<double> given = layers.SecondsOf(
      ModelOf({{"InsertedPrecisionFreeCast_b_nchwc", "Conv", {"x", "w"}, "token_0", kLayout},
               {"d_nchwc", "Conv", {"token_0", "w", "token_0"}, "token_1", kLayout},
               {"ReorderOutput_token_7", "ReorderOutput", {"token_1"}, "d", kLayout},
               {"head", "MatMul", {"d", "w"}, "e"}}),
      {{{"InsertedPrecisionFreeCast_b_nchwc", {}, {}, 9},
        {"d_nchwc", {}, {}, 2},
        {"head", {}, {}, 1}},
       {{"InsertedPrecisionFreeCast_b_nchwc", {}, {}, 4},
        {"d_nchwc", {}, {}, 3},
        {"ReorderOutput_token_7", {}, {}, 0.5},
        {"head", {}, {}, 1}}});
  EXPECT_THAT(given, ElementsAre(4, 2.5, 1));
  // Quantizers count to the layer that reads them, and others to the one in front.
  const std::vector<double> written =
      layers.SecondsOf(ModelOf({{"x_q", "QuantizeLinear", {"x", "w"}, "x_q"},
                                {"", "Identity", {"x_q"}, "x_dq"},
                                {"stem_token_12", "QLinearConv", {"x_dq", "w"}, "stem", kFused},
                                {"c_token_3", "QLinearConv", {"stem", "w"}, "c_token_2", kFused},
                                {"add", "QLinearAdd", {"c_token_2", "stem"}, "add", kFused},
                                {"head", "QLinearMatMul", {"add", "w"}, "head", kFused},
                                {"e_dq", "DequantizeLinear", {"head", "w"}, "e_dq"}}),
                       {{{"x_q", {}, {}, 1},
                         {"stem_token_12", {}, {}, 1},
                         {"c_token_3", {}, {}, 1},
                         {"add", {}, {}, 7},
                         {"head", {}, {}, 3},
                         {"e_dq", {}, {}, 0.5}}});
  EXPECT_THAT(written, ElementsAre(2, 8, 3.5));

  const std::vector<LayerTime> compared = layers.Compare(written, given);
  ASSERT_EQ(compared.size(), 3U);
  EXPECT_EQ(compared[0].name, "c") << "the layer that loses most, by its output";
  EXPECT_EQ(compared[0].op_type, "Conv");
  EXPECT_EQ(compared[0].seconds, 8);
  EXPECT_EQ(compared[0].given_seconds, 2.5);
  EXPECT_EQ(compared[1].name, "head");
  EXPECT_EQ(compared[2].name, "stem");
}

TEST(LayerTimes, ValuesThatAreLeftOutAreNoValues) {
  graph::Model model =
      ModelOf({{"a", "Conv", {"x", "w"}, "a"}, {"b", "Clip", {"a", "", "w"}, "b"}});
  model.InsertNode({"lstm", "LSTM", "", {"b", "w", "w"}, {"", "h"}, {}}, model.Nodes().back());
  model.InsertNode({"c", "Clip", "", {"a", "", "w"}, {"c"}, {}}, model.Nodes().back());
  const LayerMap layers(model);
  EXPECT_THAT(layers.SecondsOf(model, {{{"a", {}, {}, 1}, {"lstm", {}, {}, 2}, {"c", {}, {}, 4}}}),
              ElementsAre(5, 2));
}

TEST(LayerTimes, LayersThatDidNotRunAreLeftOut) {
  const LayerMap layers(Given());
  const std::vector<double> seconds = layers.SecondsOf(Given(), {{{"stem", {}, {}, 2}}});
  EXPECT_THAT(seconds, ElementsAre(2, 0, 0));
  EXPECT_EQ(layers.Compare(seconds, {1, 1, 1}).size(), 1U);
  EXPECT_EQ(layers.Compare({0, 0, 0}, {1, 1, 1}).size(), 0U);
}

}  // namespace
}  // namespace bitpress::deploy
