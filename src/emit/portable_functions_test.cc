#include "emit/portable_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "emit/insert_quantizers.h"
#include "plan/test_support.h"

namespace bitpress::emit {
namespace {

using plan::LoadModel;
using plan::PlanFor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

graph::Model Quantized(const char* name, const char* preset) {
  graph::Model model = LoadModel(name);
  InsertQuantizers(model, {PlanFor(model, preset)});
  return model;
}

// A quantizer of the graph's output, behind all others.
void AddQuantizer(graph::Model& model, const std::string& op_type, const std::string& name,
                  std::vector<std::pair<std::string, graph::Attribute>> attributes) {
  graph::NodeSpec node{name, op_type, "bitpress", {model.OutputNames().front()}, {name}, {}};
  node.attributes = std::move(attributes);
  model.InsertNode(node, std::nullopt);
  model.SetOpsetImport("bitpress", 1);
}

TEST(AddPortableFunctions, OneForEachOperator) {
  graph::Model model = Quantized("convnet.onnx", "MXFP8E4M3");
  const PortableFunctions result = AddPortableFunctions(model);
  EXPECT_TRUE(result.is_changed);
  EXPECT_THAT(result.op_types, ElementsAre("QuantizeDequantize_mxfp8_e4m3"));
  EXPECT_THAT(result.omissions, IsEmpty());
  EXPECT_THAT(model.Functions(),
              ElementsAre(testing::Pair("bitpress", "QuantizeDequantize_mxfp8_e4m3")));
  model.Check();
}

TEST(AddPortableFunctions, SecondRunChangesNothing) {
  for (const char* preset : {"MX6", "MXINT8", "BF16", "BFP16"}) {
    graph::Model model = Quantized("attention.onnx", preset);
    EXPECT_TRUE(AddPortableFunctions(model).is_changed);
    const std::string first = model.Serialize();
    EXPECT_FALSE(AddPortableFunctions(model).is_changed);
    EXPECT_EQ(model.Serialize(), first) << preset;
  }
}

TEST(AddPortableFunctions, NothingWithoutQuantizers) {
  graph::Model model = LoadModel("convnet.onnx");
  const std::string before = model.Serialize();
  const PortableFunctions result = AddPortableFunctions(model);
  EXPECT_FALSE(result.is_changed);
  EXPECT_THAT(result.op_types, IsEmpty());
  EXPECT_EQ(model.Serialize(), before);
}

TEST(AddPortableFunctions, NodesThatDifferLoseTheirFunction) {
  graph::Model model = Quantized("convnet.onnx", "MX9");
  AddPortableFunctions(model);
  ASSERT_TRUE(model.HasFunction("bitpress", "QuantizeDequantize_mx9"));
  AddQuantizer(model, "QuantizeDequantize_mx9", "other",
               {{"axis", int64_t{1}}, {"rounding_mode", std::string("half_up")}});
  const PortableFunctions result = AddPortableFunctions(model);
  EXPECT_TRUE(result.is_changed);
  EXPECT_FALSE(model.HasFunction("bitpress", "QuantizeDequantize_mx9"));
  ASSERT_EQ(result.omissions.size(), 1u);
  EXPECT_EQ(result.omissions[0].op_type, "QuantizeDequantize_mx9");
  EXPECT_THAT(result.omissions[0].reason, HasSubstr("half_to_even"));
  EXPECT_THAT(result.omissions[0].reason, HasSubstr("'other'"));
  EXPECT_THAT(result.omissions[0].reason, HasSubstr("half_up"));
}

TEST(AddPortableFunctions, WhatIsNoOperatorOfOursIsAnOmission) {
  const auto reason = [](const std::string& op_type,
                         std::vector<std::pair<std::string, graph::Attribute>> attributes) {
    graph::Model model = LoadModel("convnet.onnx");
    AddQuantizer(model, op_type, "odd", std::move(attributes));
    const PortableFunctions result = AddPortableFunctions(model);
    EXPECT_THAT(result.op_types, IsEmpty());
    return result.omissions.empty() ? "" : result.omissions.front().reason;
  };
  EXPECT_THAT(reason("QuantizeDequantize_mx7", {}), HasSubstr("mx7"));
  EXPECT_THAT(reason("QuantizeDequantize_int8", {}), HasSubstr("no such operator"));
  EXPECT_THAT(reason("QuantizeDequantize_mx6", {}), HasSubstr("no attribute axis"));
  EXPECT_THAT(reason("QuantizeDequantize_fp16", {{"rounding_mode", std::string("half_up")}}),
              HasSubstr("half_up"));
}

TEST(PortableFunction, ValuesHaveOneProducerInTopologicalOrder) {
  std::vector<formats::FormatSpec> specs{formats::FindFormat("bfp(bits=13, block=32)")};
  for (const formats::FormatSpec& spec : formats::AllFormats()) {
    if (!spec.is_integer()) specs.push_back(spec);
  }
  for (formats::FormatSpec spec : specs) {
    for (const auto choice : {formats::ScaleChoice::kFloor, formats::ScaleChoice::kCeil,
                              formats::ScaleChoice::kEven, formats::ScaleChoice::kMse}) {
      spec.scale_choice = choice;
      for (const int64_t opset : {13, 14, 15, 18, 21}) {
        const graph::FunctionSpec function = PortableFunction(spec, "Name", opset);
        std::set<std::string> defined(function.inputs.begin(), function.inputs.end());
        for (const graph::NodeSpec& node : function.nodes) {
          for (const std::string& input : node.inputs) EXPECT_TRUE(defined.contains(input));
          for (const std::string& output : node.outputs) {
            EXPECT_TRUE(defined.insert(output).second) << spec.name << " " << output;
          }
        }
        EXPECT_TRUE(defined.contains("y"));
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::emit
