#include "emit/insert_quantizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_support.h"
#include "emit/apply_plan.h"
#include "emit/dequantize_in_bodies.h"
#include "plan/test_support.h"

namespace bitpress::emit {
namespace {

using plan::LoadModel;
using plan::PlanFor;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<graph::Node> NodesOf(const graph::Model& model, std::string_view domain) {
  std::vector<graph::Node> nodes;
  for (const graph::Node& node : model.Nodes()) {
    if (node.domain() == domain) nodes.push_back(node);
  }
  return nodes;
}

graph::Node NodeNamed(const graph::Model& model, std::string_view name) {
  for (const graph::Node& node : model.AllNodes()) {
    if (node.name() == name) return node;
  }
  throw std::runtime_error(std::string("no node ") + std::string(name));
}

// Every input is defined by a node before, the graph's inputs or a constant.
void ExpectTopological(const graph::Model& model) {
  std::set<std::string> defined;
  for (const graph::Node& node : model.Nodes()) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      EXPECT_TRUE(value.empty() || defined.contains(value) || model.IsInput(value) ||
                  model.IsInitializer(value))
          << node.Describe() << " reads " << value;
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) defined.insert(node.output(i));
  }
  for (const std::string& output : model.OutputNames()) EXPECT_TRUE(defined.contains(output));
}

TEST(InsertQuantizers, BehindEveryProducerOnce) {
  graph::Model model = LoadModel("convnet.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MXFP8E4M3");
  EXPECT_TRUE(InsertQuantizers(model, {plan}));
  const std::vector<graph::Node> nodes = NodesOf(model, "bitpress");
  ASSERT_EQ(nodes.size(), 5u);
  const graph::Node& first = nodes.front();
  EXPECT_EQ(first.op_type(), "QuantizeDequantize_mxfp8_e4m3");
  EXPECT_EQ(first.name(), "x_quantized");
  EXPECT_EQ(first.input(0), "x");
  EXPECT_EQ(first.output(0), "x_quantized");
  EXPECT_EQ(first.GetInt("axis", -9), 1);
  EXPECT_EQ(first.GetString("rounding_mode", ""), "half_to_even");
  EXPECT_EQ(first.GetString("scale_choice", ""),
            formats::ScaleChoiceName(*plan.tensors[0].scale_choice));
  EXPECT_FALSE(first.HasAttribute("bits"));
  EXPECT_EQ(NodeNamed(model, "conv_0").input(0), "x_quantized");
  EXPECT_EQ(NodeNamed(model, "conv_0").input(1), "stem_weight");  // no operator on a weight
  // b goes quantized to the Conv and as it is to the residual Add.
  EXPECT_EQ(NodeNamed(model, "conv_2").input(0), "b_quantized");
  EXPECT_EQ(NodeNamed(model, "add_5").input(1), "b");
  EXPECT_EQ(model.OpsetImports().at("bitpress"), 1);
  ExpectTopological(model);
  model.Check();
}

TEST(InsertQuantizers, SecondRunChangesNothing) {
  for (const char* name : {"convnet.onnx", "attention.onnx", "shared.onnx", "fused.onnx",
                           "exotic.onnx", "quantized.onnx", "branches.onnx"}) {
    for (const char* placement : {"placement=compute", "placement=all"}) {
      for (const char* operators : {"operators=bitpress", "operators=quark"}) {
        for (const char* format : {"MX9", "MXINT8", "BF16"}) {
          graph::Model model = LoadModel(name);
          const plan::QuantPlan plan = PlanFor(model, format, {placement, operators});
          EXPECT_TRUE(InsertQuantizers(model, {plan})) << name;
          const std::string once = model.Serialize();
          EXPECT_FALSE(InsertQuantizers(model, {plan})) << name << placement << operators << format;
          EXPECT_EQ(model.Serialize(), once);
          ExpectTopological(model);
          model.Check();
        }
      }
    }
  }
}

TEST(InsertQuantizers, PlanningAgainFindsEverythingQuantized) {
  graph::Model model = LoadModel("convnet.onnx");
  InsertQuantizers(model, {PlanFor(model, "MX9", {"placement=all"})});
  model.InferShapes();
  const plan::QuantPlan again = PlanFor(model, "MX6", {"placement=all"});
  for (const plan::TensorPlan& row : again.tensors) {
    if (row.role == plan::Role::kActivation) {
      EXPECT_THAT(row.reason, HasSubstr("already quantized")) << row.value;
    }
  }
  EXPECT_FALSE(InsertQuantizers(model, {again}));
}

TEST(InsertQuantizers, GraphOutputsKeepTheirNames) {
  graph::Model model = LoadModel("attention.onnx");
  const std::vector<std::string> outputs = model.OutputNames();
  InsertQuantizers(model, {PlanFor(model, "MXINT8", {"placement=all"})});
  EXPECT_EQ(model.OutputNames(), outputs);
  const graph::Node last = *model.Producer("z");
  EXPECT_EQ(last.op_type(), "QuantizeDequantize_mxint8");
  EXPECT_EQ(last.input(0), "z_float");
  EXPECT_EQ(NodeNamed(model, "matmul_5").output(0), "z_float");
  ExpectTopological(model);
}

TEST(InsertQuantizers, OneOperatorForEachAxis) {
  graph::Model model = LoadModel("fused.onnx");
  InsertQuantizers(model, {PlanFor(model, "MXINT8")});
  const graph::Node product = NodeNamed(model, "fusedmatmul_3");
  EXPECT_EQ(product.input(0), product.input(1));
  EXPECT_EQ(model.Producer(product.input(0))->GetInt("axis", 9), -2);
  const graph::Node other = NodeNamed(model, "fusedmatmul_2");
  EXPECT_NE(other.input(0), product.input(0));
  EXPECT_EQ(model.Producer(other.input(0))->GetInt("axis", 9), -1);
}

TEST(InsertQuantizers, BodiesReadAndGiveQuantizedValues) {
  graph::Model model = LoadModel("branches.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MX6", {"placement=all"});
  EXPECT_TRUE(InsertQuantizers(model, {plan}));
  model.Check();
  for (const char* conv : {"then_conv", "else_conv"}) {
    EXPECT_EQ(NodeNamed(model, conv).input(0), "h_quantized");
  }
  EXPECT_EQ(NodeNamed(model, "relu").input(0), "h_quantized");
  EXPECT_EQ(NodeNamed(model, "then_conv").output(0), "t_float");
  EXPECT_EQ(model.Producer("t")->input(0), "t_float");
  EXPECT_TRUE(model.AreInOneGraph(*model.Producer("t"), NodeNamed(model, "then_conv")));
  EXPECT_FALSE(InsertQuantizers(model, {plan}));
}

TEST(DequantizeInBodies, EachBodyGetsItsOwn) {
  graph::Model model = LoadModel("branches.onnx");
  plan::ScaleTable scales;
  for (const char* value : {"x", "h", "t", "e", "y", "z"}) scales[{value, "uint8"}] = {0.5F, 128};
  const plan::QuantPlan plan = PlanFor(model, "INT8");
  InsertQuantizers(model, {.plan = plan, .scales = scales});
  EXPECT_TRUE(DequantizeInBodies(model));
  model.Check();
  std::vector<std::string> codes;
  for (const char* reader : {"then_conv", "else_conv", "relu"}) {
    const graph::Node node = NodeNamed(model, reader);
    const std::optional<graph::Node> dequantize = model.Producer(node.input(0));
    ASSERT_TRUE(dequantize);
    EXPECT_EQ(dequantize->op_type(), "DequantizeLinear");
    EXPECT_TRUE(model.AreInOneGraph(*dequantize, node));
    codes.push_back(dequantize->input(0));
  }
  EXPECT_THAT(codes, testing::Each("h_codes"));
  EXPECT_FALSE(DequantizeInBodies(model));
  plan::CheckFits(plan, model);
}

TEST(DequantizeInBodies, MovedElementsBecomeCodes) {
  graph::Model model = LoadModel("branches.onnx");
  model.SetInitializer("scale", MakeTensor(DataType::kFloat, {}, std::vector<float>{0.5F}));
  model.SetInitializer("zero", MakeTensor(DataType::kUInt8, {}, std::vector<uint8_t>{128}));
  const std::optional<graph::Node> behind = model.NodeBehind("h");
  ASSERT_TRUE(behind);
  model.InsertNode({"q", "QuantizeLinear", "", {"h", "scale", "zero"}, {"c"}, {}}, behind);
  model.InsertNode({"d", "DequantizeLinear", "", {"c", "scale", "zero"}, {"v"}, {}}, behind);
  model.InsertNode({"move", "Transpose", "", {"v"}, {"m"}, {}}, behind);
  model.InsertNode({"again", "Identity", "", {"m"}, {"n"}, {}}, behind);
  for (const char* reader : {"then_conv", "else_conv"}) {
    graph::Node node = NodeNamed(model, reader);
    node.set_input(0, reader[0] == 't' ? "m" : "n");
  }
  EXPECT_TRUE(DequantizeInBodies(model));
  model.Check();
  for (const char* reader : {"then_conv", "else_conv"}) {
    const graph::Node node = NodeNamed(model, reader);
    const std::optional<graph::Node> dequantize = model.Producer(node.input(0));
    ASSERT_TRUE(dequantize);
    EXPECT_EQ(dequantize->op_type(), "DequantizeLinear");
    EXPECT_TRUE(model.AreInOneGraph(*dequantize, node));
    EXPECT_EQ(dequantize->input(1), "scale");
    const std::optional<graph::Node> quantize = model.Producer(dequantize->input(0));
    ASSERT_TRUE(quantize);
    EXPECT_EQ(quantize->op_type(), "QuantizeLinear");
    EXPECT_EQ(quantize->input(0), reader[0] == 't' ? "m" : "n");
  }
  EXPECT_FALSE(DequantizeInBodies(model));
}

TEST(InsertQuantizers, BfpOfAnyWidth) {
  graph::Model model = LoadModel("convnet.onnx");
  InsertQuantizers(model, {PlanFor(model, "bfp(bits=12, block=16, exponent_bits=6)")});
  const graph::Node node = NodesOf(model, "bitpress").front();
  EXPECT_EQ(node.op_type(), "QuantizeDequantize_bfp");
  EXPECT_EQ(node.GetInt("bits", 0), 12);
  EXPECT_EQ(node.GetInt("block_size", 0), 16);
  EXPECT_EQ(node.GetInt("exponent_bits", 0), 6);
}

TEST(InsertQuantizers, ElementwiseFormatsHaveNoBlockAttributes) {
  graph::Model model = LoadModel("convnet.onnx");
  InsertQuantizers(model, {PlanFor(model, "fp8_e4m3")});
  const graph::Node node = NodesOf(model, "bitpress").front();
  EXPECT_EQ(node.op_type(), "QuantizeDequantize_fp8_e4m3");
  EXPECT_FALSE(node.HasAttribute("axis"));
  EXPECT_FALSE(node.HasAttribute("scale_choice"));
}

TEST(InsertQuantizers, QuarkMx) {
  graph::Model model = LoadModel("convnet.onnx");
  InsertQuantizers(model, {PlanFor(model, "MXFP6E2M3", {"operators=quark", "scale=floor"})});
  const graph::Node node = NodesOf(model, "com.amd.quark").front();
  EXPECT_EQ(node.op_type(), "MXQuantizeDequantize");
  EXPECT_EQ(node.GetString("element_dtype", ""), "fp6_e2m3");
  EXPECT_EQ(node.GetInt("axis", 9), 1);
  EXPECT_EQ(node.GetInt("block_size", 0), 32);
  EXPECT_EQ(node.GetInt("rounding_mode", 9), 2);
  EXPECT_FALSE(node.HasAttribute("scale_choice"));
  EXPECT_EQ(model.OpsetImports().at("com.amd.quark"), 1);
  EXPECT_FALSE(model.OpsetImports().contains("bitpress"));
}

TEST(InsertQuantizers, QuarkBfp) {
  graph::Model model = LoadModel("convnet.onnx");
  InsertQuantizers(model, {PlanFor(model, "MX6", {"operators=quark", "activation_scale=ceil"})});
  const graph::Node micro = NodesOf(model, "com.amd.quark").front();
  EXPECT_EQ(micro.op_type(), "BFPQuantizeDequantize");
  EXPECT_EQ(micro.GetString("bfp_method", ""), "to_bfp_prime");
  EXPECT_EQ(micro.GetInt("bit_width", 0), 13);
  EXPECT_EQ(micro.GetInt("block_size", 0), 16);
  EXPECT_EQ(micro.GetInt("sub_block_size", 0), 2);
  EXPECT_EQ(micro.GetInt("sub_block_shift_bits", 0), 1);
  EXPECT_EQ(micro.GetInt("rounding_mode", 9), 2);
  EXPECT_EQ(micro.GetString("scale_choice", ""), "ceil");

  graph::Model plain = LoadModel("convnet.onnx");
  InsertQuantizers(plain, {PlanFor(plain, "BFP16", {"operators=quark", "scale=floor"})});
  const graph::Node bfp = NodesOf(plain, "com.amd.quark").front();
  EXPECT_EQ(bfp.GetString("bfp_method", ""), "to_bfp");
  EXPECT_EQ(bfp.GetInt("bit_width", 0), 16);
  EXPECT_EQ(bfp.GetInt("block_size", 0), 8);
  EXPECT_FALSE(bfp.HasAttribute("sub_block_size"));
}

TEST(InsertQuantizers, QuarkHalfFloatsArePairs) {
  for (const auto& [format, type] :
       {std::pair{"BF16", DataType::kBFloat16}, std::pair{"FP16_SIMULATED", DataType::kFloat16}}) {
    graph::Model model = LoadModel("convnet.onnx");
    InsertQuantizers(model, {PlanFor(model, format, {"operators=quark"})});
    const std::vector<graph::Node> nodes = NodesOf(model, "com.amd.quark");
    ASSERT_EQ(nodes.size(), 10u);
    EXPECT_EQ(nodes[0].op_type(), "ExtendedQuantizeLinear");
    EXPECT_EQ(nodes[1].op_type(), "ExtendedDequantizeLinear");
    EXPECT_EQ(nodes[0].output(0), nodes[1].input(0));
    for (size_t i = 1; i < 3; ++i) EXPECT_EQ(nodes[0].input(i), nodes[1].input(i));
    const graph::InitializerView scale = model.Initializer(nodes[0].input(1));
    EXPECT_TRUE(scale.dims.empty());
    EXPECT_EQ(scale.values<float>()[0], 1.0F);
    EXPECT_EQ(model.Initializer(nodes[0].input(2)).type, type);
    EXPECT_EQ(nodes[1].output(0), "x_quantized");
    model.Check();
  }
}

TEST(InsertQuantizers, RefusesAPlanOfAnotherModel) {
  graph::Model model = LoadModel("attention.onnx");
  const std::string before = model.Serialize();
  EXPECT_THROW(InsertQuantizers(model, {PlanFor(LoadModel("convnet.onnx"), "MX6")}), Error);
  EXPECT_EQ(model.Serialize(), before);
}

TEST(RecordConfig, WritesMetadataOnce) {
  graph::Model model = LoadModel("convnet.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MX6");
  EXPECT_TRUE(RecordConfig(model, plan));
  EXPECT_FALSE(RecordConfig(model, plan));
  EXPECT_THAT(model.Metadata().at("bitpress.config"), HasSubstr("\"name\":\"MX6\""));
  EXPECT_EQ(model.Metadata().at("bitpress.weights"), "5");
  EXPECT_FALSE(model.Metadata().at("bitpress.version").empty());
}

}  // namespace
}  // namespace bitpress::emit
