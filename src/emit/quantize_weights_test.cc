#include "emit/quantize_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "emit/apply_plan.h"
#include "formats/reference.h"
#include "kernels/half.h"
#include "plan/test_support.h"

namespace bitpress::emit {
namespace {

using plan::LoadModel;
using plan::PlanFor;
using testing::AllOf;
using testing::HasSubstr;

std::vector<float> Floats(const graph::Model& model, const std::string& name) {
  const auto values = model.Initializer(name).values<float>();
  return {values.begin(), values.end()};
}

// Returns the result that the specification gives for a tensor seen as [outer, axis, inner].
std::vector<float> Expected(const std::vector<float>& x, const plan::TensorPlan& row, int64_t outer,
                            int64_t axis, int64_t inner) {
  std::vector<float> y(x.size());
  formats::ref::FakeQuantize(row.Spec(), x, y, outer, axis, inner);
  return y;
}

QuantizedWeights Quantize(graph::Model& model, const plan::QuantPlan& plan, size_t threads = 2) {
  ThreadPool pool(threads);
  QuantizedWeights result = QuantizeWeights(model, {plan}, {Storage::kSimulated}, pool);
  model.Materialize();
  return result;
}

TEST(QuantizeWeights, EqualsTheSpecification) {
  for (const char* format : {"MXFP8E4M3", "MX6", "BFP16", "MXINT8", "BF16", "fp8_e5m2"}) {
    const graph::Model original = LoadModel("convnet.onnx");
    graph::Model model = LoadModel("convnet.onnx");
    const plan::QuantPlan plan = PlanFor(model, format);
    const QuantizedWeights result = Quantize(model, plan);
    EXPECT_TRUE(result.is_modified);
    ASSERT_EQ(result.weights.size(), 5u);
    // Flattened kernel windows, channels along axis 1, and a matrix.
    EXPECT_EQ(
        Floats(model, "depthwise_weight"),
        Expected(Floats(original, "depthwise_weight"), RowOf(plan, "depthwise_weight"), 8, 9, 1));
    EXPECT_EQ(Floats(model, "project_weight"), Expected(Floats(original, "project_weight"),
                                                        RowOf(plan, "project_weight"), 8, 48, 1));
    EXPECT_EQ(Floats(model, "fc_weight"),
              Expected(Floats(original, "fc_weight"), RowOf(plan, "fc_weight"), 10, 8, 1));
    EXPECT_EQ(Floats(model, "stem_bias"), Floats(original, "stem_bias"));
    EXPECT_NE(Floats(model, "fc_weight"), Floats(original, "fc_weight"));
  }
}

TEST(QuantizeWeights, StridedAxes) {
  const graph::Model original = LoadModel("convnet.onnx");
  graph::Model model = LoadModel("convnet.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MXFP4E2M1", {"short_axis=channels"});
  Quantize(model, plan);
  EXPECT_EQ(Floats(model, "depthwise_weight"), Expected(Floats(original, "depthwise_weight"),
                                                        RowOf(plan, "depthwise_weight"), 1, 8, 9));
}

TEST(QuantizeWeights, Statistics) {
  const graph::Model original = LoadModel("convnet.onnx");
  graph::Model model = LoadModel("convnet.onnx");
  const QuantizedWeights result = Quantize(model, PlanFor(model, "MX4"));
  const weights::WeightStatistics& last = *result.weights.back();
  EXPECT_EQ(last.value, "fc_weight");
  EXPECT_EQ(last.quantized, "fc_weight");
  EXPECT_EQ(last.format, "mx4");
  EXPECT_EQ(last.num_elements, 80);
  const std::vector<float> x = Floats(original, "fc_weight");
  const std::vector<float> y = Floats(model, "fc_weight");
  double noise = 0;
  double signal = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    noise += std::pow(double{y[i]} - double{x[i]}, 2);
    signal += std::pow(double{x[i]}, 2);
  }
  EXPECT_DOUBLE_EQ(last.mean_squared_error, noise / 80);
  EXPECT_NEAR(last.sqnr_db, 10 * std::log10(signal / noise), 1e-9);
  EXPECT_GT(last.sqnr_db, 5);
}

TEST(QuantizeWeights, SecondRunChangesNothing) {
  for (const char* name : {"convnet.onnx", "shared.onnx", "attention.onnx", "exotic.onnx",
                           "branches.onnx", "fused.onnx"}) {
    for (const char* format : {"MX6", "MXFP8E4M3", "FP16_SIMULATED"}) {
      graph::Model model = LoadModel(name);
      const plan::QuantPlan plan = PlanFor(model, format, {"biases=bf16"});
      EXPECT_TRUE(Quantize(model, plan).is_modified) << name << format;
      const std::string once = model.Serialize();
      Quantize(model, plan);
      EXPECT_TRUE(model.Serialize() == once) << name << format;
      model.Check();
    }
  }
}

TEST(QuantizeWeights, ThreadsDoNotMatter) {
  graph::Model one = LoadModel("shared.onnx");
  graph::Model four = LoadModel("shared.onnx");
  const plan::QuantPlan plan = PlanFor(one, "MXFP6E3M2");
  Quantize(one, plan, 1);
  Quantize(four, plan, 4);
  EXPECT_EQ(one.Serialize(), four.Serialize());
}

TEST(QuantizeWeights, SharedWeights) {
  const graph::Model original = LoadModel("shared.onnx");
  graph::Model model = LoadModel("shared.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MXINT8");
  const QuantizedWeights result = Quantize(model, plan);
  ASSERT_EQ(result.weights.size(), 4u);
  // Read twice in the same way: one tensor, its name kept.
  EXPECT_TRUE(model.IsInitializer("conv_weight"));
  EXPECT_EQ(model.Uses("conv_weight").size(), 2u);
  // Read in two ways: a copy each, the original gone.
  EXPECT_FALSE(model.IsInitializer("gemm_weight"));
  const std::vector<float> x = Floats(original, "gemm_weight");
  std::vector<plan::TensorPlan> rows;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.value == "gemm_weight") rows.push_back(row);
  }
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(Floats(model, "gemm_weight_quantized"), Expected(x, rows[0], 40, 40, 1));
  EXPECT_EQ(Floats(model, "gemm_weight_quantized_1"), Expected(x, rows[1], 1, 40, 40));
  EXPECT_EQ(model.Uses("gemm_weight_quantized").size(), 1u);
  // Also read by an Add, which does not multiply: the original stays for it.
  EXPECT_EQ(Floats(model, "matmul_weight"), Floats(original, "matmul_weight"));
  EXPECT_NE(Floats(model, "matmul_weight_quantized"), Floats(original, "matmul_weight"));
  EXPECT_EQ(model.Uses("matmul_weight").front().node.op_type(), "Add");
}

TEST(QuantizeWeights, BodiesReadTheSameWeight) {
  const graph::Model original = LoadModel("branches.onnx");
  graph::Model model = LoadModel("branches.onnx");
  Quantize(model, PlanFor(model, "MXFP4E2M1"));
  model.Check();
  EXPECT_NE(Floats(model, "outer_weight"), Floats(original, "outer_weight"));
  EXPECT_NE(Floats(model, "inner_weight"), Floats(original, "inner_weight"));
  EXPECT_EQ(model.AllUses("outer_weight").size(), 2u);
}

TEST(QuantizeWeights, Float16) {
  const graph::Model original = LoadModel("exotic.onnx");
  graph::Model model = LoadModel("exotic.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MXFP6E2M3");
  Quantize(model, plan);
  EXPECT_EQ(model.Initializer("half_weight").type, DataType::kFloat16);
  const auto halves = original.Initializer("half_weight").values<uint16_t>();
  std::vector<float> x(halves.size());
  kernels::HalfToFloat(halves, x.data());
  const std::vector<float> y = Expected(x, RowOf(plan, "half_weight"), 1, 33, 3);
  std::vector<uint16_t> expected(y.size());
  kernels::FloatToHalf(y, expected.data());
  const auto got = model.Initializer("half_weight").values<uint16_t>();
  EXPECT_EQ(std::vector<uint16_t>(got.begin(), got.end()), expected);
  EXPECT_EQ(model.Initializer("double_weight").type, DataType::kDouble);
}

TEST(QuantizeWeights, Biases) {
  const graph::Model original = LoadModel("convnet.onnx");
  graph::Model model = LoadModel("convnet.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MX9", {"biases=mxint8", "weights=none"});
  const QuantizedWeights result = Quantize(model, plan);
  EXPECT_EQ(result.weights.size(), 3u);
  EXPECT_EQ(Floats(model, "fc_bias"),
            Expected(Floats(original, "fc_bias"), RowOf(plan, "fc_bias"), 1, 10, 1));
  EXPECT_EQ(Floats(model, "fc_weight"), Floats(original, "fc_weight"));
}

TEST(QuantizeWeights, NanIsAnErrorThatSaysWhere) {
  graph::Model model = LoadModel("nan_weight.onnx");
  try {
    Quantize(model, PlanFor(model, "MX9"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("Conv 'conv_0'"), HasSubstr("'weight'"),
                                    HasSubstr("NaN at index 5"), HasSubstr("[1, 1, 0, 0]")));
  }
  model = LoadModel("nan_weight.onnx");
  EXPECT_NO_THROW(Quantize(model, PlanFor(model, "MX9", {"exclude_nodes=conv_0"})));
}

TEST(QuantizeWeights, ReportsProgress) {
  graph::Model model = LoadModel("convnet.onnx");
  const plan::QuantPlan plan = PlanFor(model, "MX9");
  ThreadPool pool(2);
  std::vector<size_t> done;
  const ProgressSink sink = [&](std::string_view stage, size_t step, size_t total) {
    EXPECT_EQ(stage, "quantize weights");
    EXPECT_EQ(total, 5u);
    done.push_back(step);
  };
  QuantizeWeights(model, {plan}, {Storage::kSimulated}, pool, sink);
  EXPECT_TRUE(done.empty());
  model.Materialize();
  EXPECT_THAT(done, testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(ApplyPlan, RunsThePassesAndASecondRunChangesNothing) {
  for (const Storage storage : {Storage::kSimulated, Storage::kPacked}) {
    graph::Model model = LoadModel("shared.onnx");
    const plan::QuantPlan plan = PlanFor(model, "MX6", {"placement=all"});
    ThreadPool pool(2);
    ApplyOptions options;
    options.storage = storage;
    options.target = Target::kPortable;
    const TransformReport report = ApplyPlan(model, {plan}, options, pool);
    ASSERT_EQ(report.passes.size(), 8u);
    EXPECT_EQ(report.passes[2].name, "quantize-weights");
    for (const graph::PassResult& pass : report.passes) {
      EXPECT_TRUE(pass.is_modified || pass.name == "raise-opset" || pass.name == "split-plan" ||
                  pass.name == "look-up-rows" || pass.name == "hard-swish-on-codes")
          << pass.name;
    }
    EXPECT_EQ(report.weights.size(), 4u);
    model.Check();
    const std::string once = model.Serialize();
    ApplyPlan(model, {plan}, options, pool);
    EXPECT_TRUE(model.Serialize() == once);
  }
}

TEST(ApplyPlan, RaisesTheOperatorSetIfAsked) {
  for (const size_t least_opset : {size_t{0}, size_t{22}}) {
    graph::Model model = LoadModel("shared.onnx");
    const plan::QuantPlan plan = PlanFor(model, "MX6", {});
    ThreadPool pool(1);
    ApplyOptions options;
    options.least_opset = least_opset;
    ApplyPlan(model, {plan}, options, pool);
    EXPECT_EQ(model.OpsetImports().at("") == 22, least_opset == 22);
    model.Check();
  }
}

std::map<std::string, int> CountTypes(const graph::Model& model) {
  std::map<std::string, int> counts;
  for (const graph::Node& node : model.Nodes()) ++counts[node.op_type()];
  return counts;
}

// Writes a model with Storage::kQdq, twice: the second time changes nothing.
graph::Model WriteQdq(const std::string& file, const plan::QuantPlan& plan) {
  graph::Model model = LoadModel(file);
  ThreadPool pool(2);
  const ApplyOptions options{.storage = Storage::kQdq};
  const TransformReport report = ApplyPlan(model, {plan}, options, pool);
  model.CheckInFull();
  const std::string once = model.Serialize();
  ApplyPlan(model, {plan}, options, pool);
  EXPECT_TRUE(model.Serialize() == once);
  for (const auto& weight : report.weights) EXPECT_GT(weight->sqnr_db, 0) << weight->value;
  return model;
}

TEST(StorageQdq, QuantizersStandOnWeightsAndBiases) {
  const std::vector<std::string> quark{"placement=all", "short_axis=axis", "scale=floor"};
  const auto write = [&](const std::string& format, const std::string& operators) {
    std::vector<std::string> settings = quark;
    settings.push_back("biases=" + format);
    settings.push_back("operators=" + operators);
    return CountTypes(
        WriteQdq("convnet.onnx", PlanFor(LoadModel("convnet.onnx"), format, settings)));
  };
  const auto rows = [&](const std::string& format) {
    const plan::QuantPlan plan =
        PlanFor(LoadModel("convnet.onnx"), format, {"placement=all", "biases=" + format});
    return static_cast<int>(std::ranges::count_if(
        plan.tensors, [](const plan::TensorPlan& row) { return row.is_quantized(); }));
  };
  EXPECT_EQ(write("mxfp8_e4m3", "quark")["MXQuantizeDequantize"], rows("mxfp8_e4m3"));
  EXPECT_EQ(write("bfp16", "quark")["BFPQuantizeDequantize"], rows("bfp16"));
  EXPECT_EQ(write("bf16", "quark")["ExtendedQuantizeLinear"], rows("bf16"));
  EXPECT_EQ(write("bf16", "quark")["ExtendedDequantizeLinear"], rows("bf16"));
  EXPECT_EQ(write("bf16", "quark_cast")["Cast"], 2 * rows("bf16"));
  EXPECT_EQ(write("mx6", "quark_cast")["BFPQuantizeDequantize"], rows("mx6"));
  // Ours stand on activations only: weights are codes.
  std::map<std::string, int> ours = write("mx6", "bitpress");
  EXPECT_GT(ours["QuantizeDequantize_mx6"], 0);
  EXPECT_EQ(ours["QuantizeDequantize_mx6"] + ours["DequantizeLinear"], rows("mx6"));
}

TEST(StorageQdq, WeightsOfAScaleAreDividedByIt) {
  graph::Model model = WriteQdq(
      "convnet.onnx", PlanFor(LoadModel("convnet.onnx"), "bf16",
                              {"activations=none", "weight_scaled=true", "operators=quark"}));
  const std::vector<float> weights = Floats(LoadModel("convnet.onnx"), "fc_weight");
  float largest = 0;
  for (const float value : weights) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(Floats(model, "fc_weight_scale"), std::vector<float>{largest / 2});
  EXPECT_EQ(Floats(model, "fc_weight"), weights);
}

TEST(StorageQdq, IntegersOfFourBitsInBlocksAreBehindADequantizeLinear) {
  graph::Model model =
      WriteQdq("attention.onnx",
               PlanFor(LoadModel("attention.onnx"), "none",
                       {"weights=int4", "weight_granularity=per_block", "weight_block_size=16"}));
  EXPECT_GE(model.OpsetImports()[""], 21);
  int num_blocked = 0;
  for (const graph::Node& node : model.Nodes()) {
    EXPECT_NE(node.domain(), "bitpress") << node.Describe();
    if (node.op_type() != "DequantizeLinear") continue;
    EXPECT_EQ(model.InfoOf(node.input(0)).type, DataType::kInt4);
    num_blocked += node.GetInt("block_size", 0) == 16 ? 1 : 0;
  }
  EXPECT_GT(num_blocked, 2);
}

TEST(ComputesFromCodes, ByDefaultFromPackedWeightsButNotWithQuarksOperators) {
  using plan::OperatorSet;
  EXPECT_TRUE(ComputesFromCodes({}, OperatorSet::kBitpress));
  EXPECT_TRUE(ComputesFromCodes({.is_portable = false}, OperatorSet::kBitpress));
  EXPECT_FALSE(ComputesFromCodes({}, OperatorSet::kQuark));
  EXPECT_FALSE(ComputesFromCodes({.storage = Storage::kSimulated}, OperatorSet::kBitpress));
  EXPECT_FALSE(ComputesFromCodes({.target = Target::kPortable}, OperatorSet::kBitpress));
  EXPECT_FALSE(ComputesFromCodes({.target = Target::kOnnxRuntime}, OperatorSet::kBitpress));
  EXPECT_TRUE(ComputesFromCodes({.target = Target::kBitpress}, OperatorSet::kQuark));
}

TEST(ApplyPlan, ReplacesProductsOfBlocksButNotOfIntegersByDefault) {
  const auto types = [](const char* config) {
    graph::Model model = LoadModel("shared.onnx");
    ThreadPool pool(2);
    ApplyPlan(model, {PlanFor(model, config, {"activations=none"})}, {}, pool);
    model.Materialize();
    model.CheckInFull();
    std::vector<std::string> found;
    for (const graph::Node& node : model.Nodes()) found.push_back(node.op_type());
    return found;
  };
  EXPECT_THAT(types("MX6"), testing::Contains(testing::StartsWith("MatMul_mx6")));
  EXPECT_THAT(types("INT4_WEIGHTS"),
              testing::AllOf(testing::Contains(testing::StartsWith("Unpack_")),
                             testing::Not(testing::Contains("MatMulNBits"))));
}

}  // namespace
}  // namespace bitpress::emit
