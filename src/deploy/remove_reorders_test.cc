#include "deploy/remove_reorders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format_spec.h"
#include "formats/reference.h"

namespace bitpress::deploy {
namespace {

using testing::ElementsAre;

constexpr const char* kBlocked = "com.microsoft.nchwc";

// A graph grown node by node in front of the one node of x -> Identity -> scores.
class Graph {
 public:
  Graph()
      : model(graph::Model::Load(BITPRESS_SOURCE_DIR "/tests/data/evaluate/identity.onnx")),
        end_(model.Nodes().front()) {
    model.SetOpsetImport(kBlocked, 1);
    model.SetOpsetImport("bitpress", 1);
  }

  using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;
  void Add(const std::string& domain, const std::string& op_type, const std::string& input,
           const std::string& output, Attributes attributes = {}) {
    const auto before = end_.input(0) == "x" ? std::optional<graph::Node>(end_) : std::nullopt;
    model.InsertNode({output, op_type, domain, {input}, {output}, std::move(attributes)}, before);
  }
  void Convolve(const std::string& input, const std::string& output) {
    Add(kBlocked, "Conv", input, output);
  }
  void Quantize(const std::string& input, const std::string& output,
                const std::string& format = "bf16") {
    Add("bitpress", "QuantizeDequantize_" + format, input, output);
  }
  // Add a reorder to NCHW and one to NCHWc.
  void Unblock(const std::string& input, const std::string& output) {
    Add(kBlocked, "ReorderOutput", input, output, {{"channels", int64_t{40}}});
  }
  void Block(const std::string& input, const std::string& output) {
    Add(kBlocked, "ReorderInput", input, output);
  }
  void Finish(const std::string& value) { end_.set_input(0, value); }

  // Returns "op(input)->output" of each node.
  std::vector<std::string> Nodes() const {
    std::vector<std::string> texts;
    for (const graph::Node& node : model.Nodes()) {
      texts.push_back(fmt::format("{}({})->{}", node.op_type(), node.input(0), node.output(0)));
    }
    return texts;
  }

  // Runs the pass; the graph must be one that ONNX accepts, and a second run must do nothing.
  RemovedReorders Run() {
    const RemovedReorders report = RemoveReorders(model);
    model.Check();
    const std::string once = model.Serialize();
    const RemovedReorders again = RemoveReorders(model);
    EXPECT_EQ(again.num_quantizers, 0u);
    EXPECT_EQ(again.num_removed, 0u);
    EXPECT_EQ(again.num_left, report.num_left);
    EXPECT_EQ(model.Serialize(), once);
    return report;
  }

  graph::Model model;

 private:
  graph::Node end_;
};

// conv -> ReorderOutput -> quantizer -> ReorderInput -> conv
Graph Detour(const std::string& format = "bf16") {
  Graph graph;
  graph.Convolve("x", "a");
  graph.Unblock("a", "a_plain");
  graph.Quantize("a_plain", "q", format);
  graph.Block("q", "q_blocked");
  graph.Convolve("q_blocked", "b");
  return graph;
}

void ExpectUntouched(Graph graph, size_t num_left = 1) {
  const std::string before = graph.model.Serialize();
  const RemovedReorders report = graph.Run();
  EXPECT_EQ(report.num_quantizers, 0u);
  EXPECT_EQ(report.num_removed, 0u);
  EXPECT_EQ(report.num_left, num_left);
  EXPECT_EQ(graph.model.Serialize(), before);
}

TEST(RemoveReorders, ADetourGoes) {
  Graph graph = Detour();
  graph.Finish("b");
  const RemovedReorders report = graph.Run();
  EXPECT_EQ(report.num_quantizers, 1u);
  EXPECT_EQ(report.num_removed, 2u);
  EXPECT_EQ(report.num_left, 0u);
  EXPECT_THAT(graph.Nodes(), ElementsAre("Conv(x)->a", "QuantizeDequantize_bf16(a)->q_nchwc",
                                         "Conv(q_nchwc)->b", "Identity(b)->scores"));
}

TEST(RemoveReorders, EveryFormatByItsKind) {
  for (const formats::FormatSpec& format : formats::AllFormats()) {
    const bool is_elementwise = format.is_float();
    SCOPED_TRACE(format.name);
    Graph graph = Detour(format.name);
    graph.Finish("b");
    if (!is_elementwise) {
      ExpectUntouched(std::move(graph));
    } else {
      EXPECT_EQ(graph.Run().num_removed, 2u);
    }
  }
  Graph graph = Detour("bfp");
  graph.Finish("b");
  ExpectUntouched(std::move(graph));
}

TEST(RemoveReorders, FormatsWithoutBlocksKeepThePadding) {
  for (const char* name : {"fp16", "bf16", "fp8_e4m3", "fp8_e5m2"}) {
    const formats::FormatSpec format = formats::FindFormat(name);
    EXPECT_FALSE(format.is_blocked()) << name;
    const std::vector<float> x = {0.0F};
    std::vector<float> y = {1.0F};
    formats::ref::FakeQuantizeBlock(format, x, y);
    EXPECT_EQ(y[0], 0.0F) << name;
  }
}

TEST(RemoveReorders, SeveralReadersInTheBlockedLayout) {
  Graph graph = Detour();
  graph.Block("q", "q_again");
  graph.Convolve("q_again", "c");
  graph.Convolve("q_blocked", "d");
  graph.Finish("d");
  EXPECT_EQ(graph.Run().num_removed, 3u);
  EXPECT_THAT(graph.Nodes(),
              ElementsAre("Conv(x)->a", "QuantizeDequantize_bf16(a)->q_nchwc", "Conv(q_nchwc)->b",
                          "Conv(q_nchwc)->c", "Conv(q_nchwc)->d", "Identity(d)->scores"));
}

TEST(RemoveReorders, AnotherReaderKeepsItsReorderOutput) {
  Graph graph = Detour();
  graph.Finish("a_plain");
  EXPECT_EQ(graph.Run().num_removed, 1u);
  EXPECT_THAT(graph.Nodes(), ElementsAre("Conv(x)->a", "ReorderOutput(a)->a_plain",
                                         "QuantizeDequantize_bf16(a)->q_nchwc", "Conv(q_nchwc)->b",
                                         "Identity(a_plain)->scores"));
}

TEST(RemoveReorders, AReorderOutputThatIsAGraphOutputStays) {
  Graph graph = Detour();
  graph.Finish("b");
  graph.model.Nodes().back().set_output(0, "other");
  for (graph::Node node : graph.model.Nodes()) {
    if (node.op_type() == "ReorderOutput") node.set_output(0, "scores");
    if (node.domain() == "bitpress") node.set_input(0, "scores");
  }
  EXPECT_EQ(graph.Run().num_removed, 1u);
  EXPECT_THAT(graph.Nodes(), ElementsAre("Conv(x)->a", "ReorderOutput(a)->scores",
                                         "QuantizeDequantize_bf16(a)->q_nchwc", "Conv(q_nchwc)->b",
                                         "Identity(b)->other"));
}

TEST(RemoveReorders, TwoQuantizersOfOneValue) {
  Graph graph = Detour();
  graph.Quantize("a_plain", "r", "fp8_e4m3");
  graph.Block("r", "r_blocked");
  graph.Convolve("r_blocked", "c");
  graph.Finish("c");
  const RemovedReorders report = graph.Run();
  EXPECT_EQ(report.num_quantizers, 2u);
  EXPECT_EQ(report.num_removed, 3u);
  EXPECT_THAT(graph.Nodes(),
              ElementsAre("Conv(x)->a", "QuantizeDequantize_bf16(a)->q_nchwc", "Conv(q_nchwc)->b",
                          "QuantizeDequantize_fp8_e4m3(a)->r_nchwc", "Conv(r_nchwc)->c",
                          "Identity(c)->scores"));
}

TEST(RemoveReorders, TheNewNameIsFree) {
  Graph graph = Detour();
  graph.Convolve("b", "q_nchwc");
  graph.Finish("q_nchwc");
  EXPECT_EQ(graph.Run().num_removed, 2u);
  EXPECT_THAT(graph.Nodes(),
              ElementsAre("Conv(x)->a", "QuantizeDequantize_bf16(a)->q_nchwc_1",
                          "Conv(q_nchwc_1)->b", "Conv(b)->q_nchwc", "Identity(q_nchwc)->scores"));
}

TEST(RemoveReorders, AResultReadAsNchwStays) {
  Graph graph = Detour();
  graph.Finish("q");
  ExpectUntouched(std::move(graph));
}

TEST(RemoveReorders, AResultThatIsAGraphOutputStays) {
  Graph graph = Detour();
  graph.Finish("b");
  graph.model.Nodes().back().set_output(0, "other");
  for (graph::Node node : graph.model.Nodes()) {
    if (node.domain() == "bitpress") node.set_output(0, "scores");
    if (node.op_type() == "ReorderInput") node.set_input(0, "scores");
  }
  ExpectUntouched(std::move(graph));
}

TEST(RemoveReorders, ABlockedTensorThatIsAGraphOutputStays) {
  Graph graph = Detour();
  graph.Finish("b");
  graph.model.Nodes().back().set_output(0, "other");
  for (graph::Node node : graph.model.Nodes()) {
    if (node.op_type() == "ReorderInput") node.set_output(0, "scores");
    if (node.input(0) == "q_blocked") node.set_input(0, "scores");
  }
  ExpectUntouched(std::move(graph));
}

TEST(RemoveReorders, ChainsOfQuantizersStay) {
  Graph graph;
  graph.Convolve("x", "a");
  graph.Unblock("a", "a_plain");
  graph.Quantize("a_plain", "q");
  graph.Quantize("q", "r");
  graph.Block("r", "r_blocked");
  graph.Convolve("r_blocked", "b");
  graph.Finish("b");
  ExpectUntouched(std::move(graph));
}

TEST(RemoveReorders, ReordersToNhwcStay) {
  for (const bool is_output : {true, false}) {
    Graph graph;
    const Graph::Attributes last = {{"channels_last", int64_t{1}}};
    const Graph::Attributes first = {{"channels_last", int64_t{0}}};
    graph.Convolve("x", "a");
    graph.Add(kBlocked, "ReorderOutput", "a", "a_plain", is_output ? last : first);
    graph.Quantize("a_plain", "q");
    graph.Add(kBlocked, "ReorderInput", "q", "q_blocked", is_output ? first : last);
    graph.Convolve("q_blocked", "b");
    graph.Finish("b");
    ExpectUntouched(std::move(graph));
  }
}

TEST(RemoveReorders, OtherOperatorsStay) {
  // The same names in other domains, ONNX's own operators, and a reorder on one side only.
  for (const char* domain : {"", "com.amd.quark", "somebody.else"}) {
    Graph graph;
    if (*domain != '\0') graph.model.SetOpsetImport(domain, 1);
    graph.Convolve("x", "a");
    graph.Unblock("a", "a_plain");
    graph.Add(domain, *domain == '\0' ? "Relu" : "QuantizeDequantize_bf16", "a_plain", "q");
    graph.Block("q", "q_blocked");
    graph.Convolve("q_blocked", "b");
    graph.Finish("b");
    ExpectUntouched(std::move(graph), 0);
  }
  Graph input;
  input.Quantize("x", "q");
  input.Block("q", "q_blocked");
  input.Convolve("q_blocked", "b");
  input.Finish("b");
  ExpectUntouched(std::move(input), 0);
}

}  // namespace
}  // namespace bitpress::deploy
