// The index after edits of single values: it says what an index built anew says, and no edit walks
// over the whole model.
#include <functional>

#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

// Says all that the index knows about a value.
std::string AnswersFor(const Model& model, const std::string& value) {
  std::string answers = value + (model.IsInput(value) ? " input" : "") +
                        (model.IsBodyInput(value) ? " body-input" : "") +
                        (model.IsOutput(value) ? " output" : "") +
                        (model.IsInitializer(value) ? " initializer" : "");
  if (const std::optional<Node> producer = model.Producer(value)) {
    answers += " by " + producer->Describe();
  }
  // Edits append uses, a new index has them in the order of the graph.
  std::vector<std::string> uses;
  for (const Use& use : model.AllUses(value)) {
    uses.push_back(fmt::format(" read by {} {}", use.node.Describe(), use.input_index));
  }
  std::ranges::sort(uses);
  answers += fmt::format("{}", fmt::join(uses, ""));
  const ValueInfo info = model.InfoOf(value);
  answers += fmt::format(" {} {}", DataTypeName(info.type), info.has_shape);
  for (const Dimension& dim : info.shape) answers += fmt::format(" {}{}", dim.value, dim.symbol);
  return answers;
}

std::string Answers(const Model& model) {
  std::vector<std::string> lines;
  for (const auto& [name, entry] : ModelAccess::Impl(model).values) {
    if (entry.IsDefined()) lines.push_back(AnswersFor(model, name));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Runs an edit and compares the index with that of a clone, which is built anew.
void Edit(Model& model, const std::function<void(Model&)>& edit) {
  const size_t num_indexings = ModelAccess::Impl(model).num_info_indexings;
  edit(model);
  EXPECT_EQ(Answers(model), Answers(model.Clone()));
  EXPECT_EQ(ModelAccess::Impl(model).num_info_indexings, num_indexings);
}

const ValueInfo kFloats{DataType::kFloat, true, {{3, ""}, {-1, "N"}}};

TEST(Index, EachEditKeepsIt) {
  Model model = FromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x) => (float[2] y, float[2] z)
    <float[2] w = {1, 2}> { h = Mul(x, w) y = Relu(h) z = Abs(h) })");
  Edit(model, [](Model& m) { m.SetInfo("h", kFloats); });
  EXPECT_EQ(model.InfoOf("h").shape.size(), 2);
  Edit(model, [](Model& m) { m.AddOutput("h"); });
  EXPECT_TRUE(model.IsOutput("h"));
  // An output with a type says more than value_info.
  Edit(model, [](Model& m) { m.SetInfo("h", {DataType::kFloat16, true, {}}); });
  EXPECT_EQ(model.InfoOf("h").type, DataType::kFloat);
  Edit(model, [](Model& m) { m.RemoveOutput("h"); });
  EXPECT_FALSE(model.IsOutput("h"));
  EXPECT_EQ(model.InfoOf("h").shape.size(), 2);
  EXPECT_EQ(ToProto(model).graph().value_info_size(), 1) << "one entry for each value";
  Edit(model, [](Model& m) { m.RemoveOutput("z"); });
  EXPECT_EQ(model.InfoOf("z").shape.size(), 1) << "what the output said is kept";
  Edit(model, [](Model& m) { m.RemoveNode(m.Producer("z").value()); });

  const HeldInitializer held = model.HoldInitializer("w");
  Edit(model, [](Model& m) { m.InitializerToInput("w"); });
  EXPECT_TRUE(model.IsInput("w"));
  Edit(model, [&](Model& m) { m.InputToInitializer("w", held); });
  EXPECT_FALSE(model.IsInput("w"));
  Edit(model, [](Model& m) {
    m.InsertNode({"round", "Round", "", {"h"}, {"r"}, {}}, m.Producer("y"));
    m.Producer("y")->set_input(0, "r");
    m.SetInfo("r", kFloats);
  });
  Edit(model, [](Model& m) {
    m.Producer("y")->set_input(0, "h");
    m.RemoveNode(m.Producer("r").value());
  });
  model.Check();
}

TEST(Index, ADefaultIsNoLongerAnInput) {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x, float[2] w, float[2] v) => (float[2] y)
    <float[2] w = {1, 2}, float[2] v = {1, 2}, float[2] u = {1, 2}>
    { h = Mul(x, w) i = Mul(h, v) y = Mul(i, u) })");
  // The parser may leave out what is both.
  for (const char* name : {"w", "v"}) {
    if (std::ranges::any_of(proto.graph().input(),
                            [&](const auto& input) { return input.name() == name; })) {
      continue;
    }
    onnx::ValueInfoProto& input = *proto.mutable_graph()->add_input();
    input = proto.graph().input(0);
    input.set_name(name);
  }
  Model model = FromProto(proto);
  Edit(model, [](Model& m) {
    m.SetInitializer("w", Tensor{DataType::kFloat, {1}, BytesOf<float>({3})});
  });
  Edit(model, [](Model& m) {
    m.Producer("i")->set_input(1, "u");
    m.RemoveInitializer("v");
  });
  EXPECT_EQ(ToProto(model).graph().input_size(), 1);
  EXPECT_EQ(model.FreshName("v"), "v");
}

TEST(Index, EditsOfBodiesKeepIt) {
  Model model = FromText(kBranches);
  Edit(model, [](Model& m) { m.SetInfo("inner", kFloats); });
  EXPECT_EQ(model.InfoOf("inner").shape.size(), 2);
  EXPECT_EQ(ToProto(model).graph().value_info_size(), 0) << "it lies in the body";
  Edit(model, [](Model& m) {
    m.InsertBehindBodyValue("inner", {"round", "Round", "", {}, {}, {}});
  });
  EXPECT_EQ(model.Producer("inner")->op_type(), "Round");

  Model loop = FromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x, int64 n, bool go) => (float[2] y) {
      y = Loop (n, go, x) <body = once (int64 i, bool goes, float[2] state) =>
          (bool on, float[2] next) { on = Identity(goes) next = Abs(state) }>
    })");
  Edit(loop, [](Model& m) {
    m.InsertBehindBodyValue("state", {"round", "Round", "", {}, {}, {}});
  });
  EXPECT_TRUE(loop.IsBodyInput("state_before"));
  EXPECT_EQ(loop.InfoOf("state_before").shape.size(), 1);
}

// A large model gets an entry for each of its weights and observed values.
TEST(Index, ThousandsOfEditsIndexNothingAnew) {
  constexpr int kNumNodes = 3000;
  onnx::ModelProto proto = ProtoFromText(
      R"(<ir_version: 8, opset_import: ["": 17]> net (float[2] v0) => (float[2] y) { y = Abs(v0) })");
  for (int i = 0; i < kNumNodes; ++i) {
    onnx::NodeProto& node = *proto.mutable_graph()->add_node();
    node.set_op_type("Relu");
    node.add_input(fmt::format("v{}", i));
    node.add_output(fmt::format("v{}", i + 1));
  }
  Model model = FromProto(proto);
  Edit(model, [](Model& m) {
    for (int i = 0; i < kNumNodes; ++i) {
      m.SetInfo(fmt::format("v{}", i + 1), kFloats);
      m.AddOutput(fmt::format("v{}", i + 1));
    }
  });
  EXPECT_EQ(model.OutputNames().size(), kNumNodes + 1);
  Edit(model, [](Model& m) {
    for (int i = 0; i < kNumNodes; ++i) m.RemoveOutput(fmt::format("v{}", i + 1));
  });
  EXPECT_EQ(model.OutputNames().size(), 1);
  EXPECT_EQ(model.InfoOf("v3000").shape.size(), 2);
}

// A Conv with a bias behind it and a limit, each with documentation and metadata.
Model DocumentedModel() {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 10, opset_import: ["": 17]>
    net (float[1,2,4,4] x) => (float[1,2,4,4] y)
    <float[2,2,1,1] w = {1, 2, 3, 4}, float[2,1,1] b = {1, 2}>
    { [conv] c = Conv(x, w) [bias] s = Add(c, b) [limit] y = Relu(s) })");
  for (onnx::NodeProto& node : *proto.mutable_graph()->mutable_node()) {
    node.set_doc_string("doc of " + node.name());
    auto& entry = *node.add_metadata_props();
    entry.set_key(node.name());
    entry.set_value("kept");
  }
  return FromProto(proto);
}

std::string KeysOf(const Node& node) {
  std::string keys;
  for (const auto& entry : ModelAccess::Proto(node).metadata_props()) keys += entry.key() + " ";
  return keys;
}

TEST(Replace, KeepsNameOutputsDocumentationAndMetadata) {
  Model model = DocumentedModel();
  model.SetInfo("c", kFloats);
  Edit(model, [](Model& m) {
    const Node made = m.Replace(FindNode(m, "conv"), {"", "Abs", "", {"x"}, {}, {}});
    EXPECT_EQ(made.name(), "conv");
    EXPECT_EQ(made.output(0), "c");
    EXPECT_EQ(ModelAccess::Proto(made).doc_string(), "doc of conv");
    EXPECT_EQ(KeysOf(made), "conv ");
  });
  EXPECT_EQ(NodeNames(model), (std::vector<std::string>{"conv", "bias", "limit"}));
  EXPECT_EQ(model.InfoOf("c").shape.size(), 2) << "the description of the output stays";
  EXPECT_EQ(model.Producer("c")->op_type(), "Abs");
}

TEST(Replace, OneForManyTakesTheDocumentationOfTheOneOfItsName) {
  Model model = DocumentedModel();
  const std::vector<Node> old = model.Nodes();
  Edit(model, [&](Model& m) {
    m.Replace(old, [&] { m.InsertNode({"conv", "Abs", "", {"x"}, {"y"}, {}}, old[0]); });
  });
  ASSERT_EQ(NodeNames(model), std::vector<std::string>{"conv"});
  EXPECT_EQ(ModelAccess::Proto(model.Nodes()[0]).doc_string(), "doc of conv");
  EXPECT_EQ(KeysOf(model.Nodes()[0]), "conv bias limit ");
  EXPECT_EQ(model.FreshName("s"), "s") << "the values between are gone";
}

TEST(Replace, ManyForOneShareByNameAndOutput) {
  Model model = DocumentedModel();
  const Node limit = FindNode(model, "limit"), conv = FindNode(model, "conv");
  Edit(model, [&](Model& m) {
    m.Replace({limit}, [&] {
      m.InsertNode({"first", "Abs", "", {"s"}, {"t"}, {}}, limit);
      m.InsertNode({"second", "Neg", "", {"t"}, {"y"}, {}}, limit);
    });
    m.Replace({conv}, [&] {
      m.InsertNode({"conv", "Abs", "", {"x"}, {"u"}, {}}, conv);
      m.InsertNode({"third", "Neg", "", {"u"}, {"c"}, {}}, conv);
    });
  });
  EXPECT_EQ(KeysOf(FindNode(model, "second")), "limit ");
  EXPECT_EQ(KeysOf(FindNode(model, "first")), "");
  EXPECT_EQ(KeysOf(FindNode(model, "conv")), "conv ");
  EXPECT_EQ(KeysOf(FindNode(model, "third")), "");
}

TEST(Replace, WithinAReplacement) {
  Model model = DocumentedModel();
  const Node conv = FindNode(model, "conv");
  Edit(model, [&](Model& m) {
    m.Replace({conv}, [&] {
      m.RemoveNode(m.InsertNode({"conv", "Neg", "", {"x"}, {"unread"}, {}}, conv));
      const Node first = m.InsertNode({"conv", "Abs", "", {"x"}, {"c"}, {}}, conv);
      m.Replace(first, {"", "Sin", "", {"x"}, {}, {}});
    });
  });
  EXPECT_EQ(model.Producer("c")->op_type(), "Sin");
  EXPECT_EQ(KeysOf(*model.Producer("c")), "conv ");
}

TEST(Replace, FailsWithTheOldNodesInPlace) {
  Model model = DocumentedModel();
  const Node conv = FindNode(model, "conv");
  Edit(model, [&](Model& m) {
    const Error error = ErrorOf([&] { m.Replace({conv}, [] {}); });
    EXPECT_THAT(error.what(), testing::HasSubstr("nothing gives its output 'c'"));
    ErrorOf([&] { m.Replace({conv}, [] { Fail(ErrorCode::kRuntime, "stopped"); }); });
  });
  EXPECT_EQ(model.Producer("c"), conv);
}

TEST(Replace, InBodies) {
  Model model = FromText(kBranches);
  Edit(model, [](Model& m) {
    const Node relu = *m.Producer("t");
    m.Replace({*m.Producer("inner"), relu}, [&] {
      m.InsertNode({"both", "Add", "", {"a", "w"}, {"t"}, {}}, relu);
    });
  });
  EXPECT_EQ(model.Owner(*model.Producer("t"))->name(), "choose");
}

TEST(Replace, UsesAndNames) {
  Model model = FromText(kBranches);
  Edit(model, [](Model& m) { m.Rename("a", "magnitude"); });
  EXPECT_EQ(model.AllUses("magnitude").size(), 3) << "in both branches";
  EXPECT_EQ(FindNode(model, "abs").output(0), "magnitude");
  Edit(model, [](Model& m) { m.ReplaceAllUses("magnitude", "x"); });
  EXPECT_FALSE(model.IsRead("magnitude"));
  ErrorOf([&] { model.Rename("x", "input"); });  // no node gives it

  Model outputs = DocumentedModel();
  Edit(outputs, [](Model& m) {
    m.Rename("y", "z");
    m.InsertNode({"last", "Abs", "", {"z"}, {"y"}, {}}, std::nullopt);
  });
  EXPECT_TRUE(outputs.IsOutput("y"));
}

TEST(Replace, TheOnlyUse) {
  const Model model = FromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x) => (float[2] y, float[2] z)
    { a = Abs(x) b = Mul(a, a) y = Abs(b) c = Abs(y) z = Abs(c) })");
  EXPECT_FALSE(model.OnlyUse("a")) << "one node reads it twice";
  EXPECT_EQ(model.OnlyUse("b")->node, *model.Producer("y"));
  EXPECT_FALSE(model.OnlyUse("y")) << "it is an output, too";
  EXPECT_FALSE(model.OnlyUse("z"));
  EXPECT_TRUE(model.IsRead("z"));
  EXPECT_FALSE(model.OnlyUse("none"));
}

}  // namespace
}  // namespace bitpress::graph
