#include "ops/web_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bitpress::ops {
namespace {

TEST(WebOperators, NamesWhatABrowserLacks) {
  EXPECT_FALSE(WebRuntimeVersion().empty());
  graph::Model model = graph::Model::Load(BITPRESS_SOURCE_DIR "/tests/data/evaluate/identity.onnx");
  EXPECT_THAT(OperatorsMissingInWeb(model), testing::IsEmpty());
  std::string value = "x";
  const auto add = [&](const std::string& domain, const std::string& op_type) {
    graph::Node end = model.Nodes().back();
    const std::string output = model.FreshName("value");
    model.SetOpsetImport(domain, 1);
    model.InsertNode({output, op_type, domain, {value}, {output}, {}}, end);
    end.set_input(0, output);
    value = output;
  };
  add("com.microsoft", "MatMulNBits");
  add("mine", "Special");
  add("mine", "Special");
  add("com.microsoft.nchwc", "ReorderInput");
  EXPECT_THAT(OperatorsMissingInWeb(model),
              testing::ElementsAre("com.microsoft.nchwc::ReorderInput", "mine::Special"));
}

}  // namespace
}  // namespace bitpress::ops
