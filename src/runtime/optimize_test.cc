#include "runtime/optimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "runtime/session.h"
#include "runtime/test_support.h"

namespace bitpress::runtime {
namespace {

using testing::HasSubstr;

// Returns the number of nodes of the serialized model that have this operator.
size_t Count(const std::string& model, const std::string& op_type) {
  // The operator is field 4 of NodeProto, of wire type "length": 0x22, the length, the text.
  const std::string field = fmt::format("\x22{}{}", static_cast<char>(op_type.size()), op_type);
  size_t count = 0;
  for (size_t at = model.find(field); at != std::string::npos; at = model.find(field, at + 1)) {
    ++count;
  }
  return count;
}

float LargestDifference(const std::filesystem::path& a, const std::filesystem::path& b,
                        const Tensor& input) {
  Session first(a, {.optimization = Optimization::kNone});
  Session second(b, {.optimization = Optimization::kNone});
  const Tensor x = first.Run({input})[0];
  const Tensor y = second.Run({input})[0];
  EXPECT_EQ(x.dims, y.dims);
  if (x.dims != y.dims) return std::numeric_limits<float>::infinity();
  float largest = 0;
  for (size_t i = 0; i < x.values<float>().size(); ++i) {
    const float difference = std::abs(x.values<float>()[i] - y.values<float>()[i]);
    if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

TEST(OptimizeBasic, FoldsAndKeepsTheMeaning) {
  TemporaryFolder folder;
  OptimizeBasic(TestModel("clean_up.onnx"), folder / "out.onnx");
  EXPECT_EQ(folder.NumFiles(), 1u);
  const std::string before = ReadFile(TestModel("clean_up.onnx"));
  const std::string after = ReadFile(folder / "out.onnx");
  for (const char* gone : {"BatchNormalization", "Identity", "Concat"}) {
    EXPECT_EQ(Count(before, gone), 1u) << gone;
    EXPECT_EQ(Count(after, gone), 0u) << gone;
  }
  for (const char* kept : {"Conv", "Relu", "GlobalAveragePool", "Reshape"}) {
    EXPECT_EQ(Count(after, kept), 1u) << kept;
  }
  EXPECT_LT(
      LargestDifference(TestModel("clean_up.onnx"), folder / "out.onnx", MakeNoise({2, 3, 8, 8})),
      1e-5f);
}

TEST(OptimizeBasic, SecondTimeChangesNothing) {
  TemporaryFolder folder;
  OptimizeBasic(TestModel("clean_up.onnx"), folder / "once.onnx");
  OptimizeBasic(folder / "once.onnx", folder / "twice.onnx");
  EXPECT_EQ(ReadFile(folder / "once.onnx"), ReadFile(folder / "twice.onnx"));
}

TEST(OptimizeBasic, KeepsQuantizeAndDequantize) {
  TemporaryFolder folder;
  OptimizeBasic(TestModel("qdq.onnx"), folder / "out.onnx");
  const std::string before = ReadFile(TestModel("qdq.onnx"));
  const std::string after = ReadFile(folder / "out.onnx");
  for (const char* kept : {"QuantizeLinear", "DequantizeLinear", "Conv", "Relu", "MaxPool"}) {
    EXPECT_GE(Count(before, kept), 1u) << kept;
    EXPECT_EQ(Count(after, kept), Count(before, kept)) << kept;
  }
  EXPECT_EQ(LargestDifference(TestModel("qdq.onnx"), folder / "out.onnx", MakeNoise({2, 3, 8, 8})),
            0.0f);
}

TEST(OptimizeBasic, WritesOnlyStandardOperators) {
  TemporaryFolder folder;
  OptimizeBasic(TestModel("transformer.onnx"), folder / "out.onnx");
  const std::string after = ReadFile(folder / "out.onnx");
  for (const char* fused : {"FusedMatMul", "BiasGelu", "SkipLayerNormalization", "FusedGemm",
                            "QuickGelu", "FastGelu", "FusedConv", "Attention"}) {
    EXPECT_EQ(Count(after, fused), 0u) << fused;
  }
  EXPECT_GE(Count(after, "MatMul") + Count(after, "Gemm"), 3u);
  EXPECT_LT(
      LargestDifference(TestModel("transformer.onnx"), folder / "out.onnx", MakeNoise({1, 4, 8})),
      1e-5f);
}

TEST(OptimizeBasic, WholeNetworksLoseWhatTheyDoNotNeed) {
  const std::filesystem::path models = std::filesystem::path(BITPRESS_SHARED_DIR) / "models";
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "no " << models;
  TemporaryFolder folder;
  for (const char* name : {"efficientnet_lite0.onnx", "efficientnet_lite0_unsimplified.onnx"}) {
    OptimizeBasic(models / name, folder / name);
    const std::string after = ReadFile(folder / name);
    EXPECT_EQ(Count(after, "Conv"), 49u);
    EXPECT_EQ(Count(after, "Clip"), 33u);
    EXPECT_EQ(Count(after, "Add"), 9u);
    EXPECT_EQ(Count(after, "Gemm"), 1u);
    EXPECT_EQ(Count(after, "Pad") + Count(after, "Constant") + Count(after, "Slice"), 0u);
    EXPECT_LT(LargestDifference(models / name, folder / name, MakeNoise({1, 3, 224, 224})), 1e-3f);
  }
}

TEST(OptimizeBasic, ExternalDataMovesToTheOutput) {
  TemporaryFolder in;
  TemporaryFolder out;
  for (const char* name : {"external.onnx", "external.bin"}) {
    std::filesystem::copy_file(TestModel(name), in / name);
  }
  OptimizeBasic(in / "external.onnx", out / "out.onnx");
  EXPECT_EQ(out.NumFiles(), 2u);
  EXPECT_TRUE(std::filesystem::exists(out / "out.onnx.data"));
  EXPECT_EQ(LargestDifference(in / "external.onnx", out / "out.onnx", MakeNoise({1, 16})), 0.0f);
  // A second run would replace data that may belong to someone.
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { OptimizeBasic(in / "external.onnx", out / "out.onnx"); }),
              HasSubstr("out.onnx.data' exists"));
}

TEST(LoadOptimized, ListsAreInAnOrderOfTheirOwn) {
  const graph::Model model =
      LoadOptimized(TestModel("clean_up.onnx"),
                    [](const auto& from, const auto& to) { OptimizeBasic(from, to); });
  size_t num_attributes = 0;
  std::vector<std::string> read;
  for (const graph::Node& node : model.Nodes()) {
    const std::vector<std::string> names = node.AttributeNames();
    EXPECT_TRUE(std::ranges::is_sorted(names)) << node.Describe();
    num_attributes = std::max(num_attributes, names.size());
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (model.IsInitializer(node.input(i))) read.push_back(node.input(i));
    }
  }
  EXPECT_GE(num_attributes, 3U);
  EXPECT_GE(read.size(), 3U);
  EXPECT_EQ(model.InitializerNames(), read);
}

TEST(OptimizeAs, GivesTheOutputsOfADefaultSession) {
  TemporaryFolder folder;
  for (const char* name : {"clean_up.onnx", "qdq.onnx"}) {
    OptimizeAs(Optimization::kAll, TestModel(name), folder / name);
    const Tensor input = MakeNoise({2, 3, 8, 8});
    EXPECT_EQ(Session(TestModel(name)).Run({input})[0].bytes,
              Session(folder / name).Run({input})[0].bytes)
        << name;
  }
  EXPECT_EQ(folder.NumFiles(), 2u);
}

TEST(OptimizeAs, LeavesNothingBehind) {
  TemporaryFolder folder;
  ExpectError(ErrorCode::kIo,
              [&] { OptimizeAs(Optimization::kAll, folder / "no.onnx", folder / "out.onnx"); });
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(OptimizeBasicError, LeavesNothingBehind) {
  TemporaryFolder folder;
  ExpectError(ErrorCode::kIo, [&] { OptimizeBasic(folder / "no.onnx", folder / "out.onnx"); });
  ExpectError(ErrorCode::kRuntime,
              [&] { OptimizeBasic(TestModel("unknown_operator.onnx"), folder / "out.onnx"); });
  EXPECT_THAT(
      ExpectError(ErrorCode::kIo,
                  [&] { OptimizeBasic(TestModel("clean_up.onnx"), folder / "no" / "out.onnx"); }),
      HasSubstr("out.onnx"));
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(OptimizeBasicError, OntoItself) {
  TemporaryFolder folder;
  std::filesystem::copy_file(TestModel("clean_up.onnx"), folder / "m.onnx");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { OptimizeBasic(folder / "m.onnx", folder / "m.onnx"); }),
              HasSubstr("onto itself"));
  EXPECT_EQ(ReadFile(folder / "m.onnx"), ReadFile(TestModel("clean_up.onnx")));
}

}  // namespace
}  // namespace bitpress::runtime
