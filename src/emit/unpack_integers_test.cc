#include "weights/unpack_integers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "emit/quantize_weights.h"
#include "plan/test_support.h"
#include "weights/unpack_weights.h"

namespace bitpress::emit {
namespace {

using plan::LoadModel;
using plan::PlanFor;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> IntegerFormats() {
  std::vector<std::string> names;
  for (const formats::FormatSpec& spec : formats::AllFormats()) {
    if (spec.is_integer()) names.push_back(spec.name);
  }
  return names;
}

// "fc_weight" is large enough to be packed.
graph::Model WideModel(std::vector<int64_t> dims = {10, 80}) {
  graph::Model model = LoadModel("convnet.onnx");
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Tensor weight{DataType::kFloat, dims,
                std::vector<std::byte>(NumBytes(DataType::kFloat, NumElements(dims)))};
  for (float& value : weight.values<float>()) value = normal(random);
  model.SetInitializer("fc_weight", std::move(weight));
  return model;
}

void Quantize(graph::Model& model, const std::string& format, const std::string& granularity,
              const std::string& symmetric, Storage storage) {
  const plan::QuantPlan plan =
      PlanFor(model, "BF16",
              {"activations=none", "weights=" + format, "weight_granularity=" + granularity,
               "weight_symmetric=" + symmetric, "weight_block_size=7"});
  ThreadPool pool(2);
  QuantizeWeights(model, {plan}, {storage}, pool);
  model.Materialize();
}

std::vector<std::byte> BytesOf(const graph::Model& model, const std::string& name) {
  const auto bytes = model.Initializer(name).bytes;
  return {bytes.begin(), bytes.end()};
}

TEST(UnpackInteger, GivesTheSimulatedValues) {
  for (const std::string& format : IntegerFormats()) {
    for (const char* granularity : {"per_tensor", "per_axis", "per_block"}) {
      for (const char* symmetric : {"true", "false"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", format, granularity, symmetric));
        graph::Model packed = WideModel({9, 77});
        graph::Model simulated = packed.Clone();
        Quantize(packed, format, granularity, symmetric, Storage::kPacked);
        Quantize(simulated, format, granularity, symmetric, Storage::kSimulated);
        ASSERT_FALSE(packed.IsInitializer("fc_weight"));
        packed.Check();
        ThreadPool pool(3);
        EXPECT_EQ(weights::UnpackWeights(packed, pool), 1u);
        packed.Materialize();
        EXPECT_EQ(BytesOf(packed, "fc_weight"), BytesOf(simulated, "fc_weight"));
        EXPECT_TRUE(packed.Functions().empty());
      }
    }
  }
}

TEST(UnpackInteger, TakesAnyBytes) {
  weights::PackedWeight weight;
  weight.spec = formats::FindFormat("int4");
  weight.shape = {2, 3};
  weight.view = {2, 3, 1};
  weight.integer = {2, true, 0, true};
  const std::vector<uint8_t> codes{0x8F, 0x70, 0x21};  // -1 -8 | 0, 7 1 | 2
  const std::vector<float> scales{2, 0.5F, 1, -3};
  const std::vector<uint8_t> zero_points{0xF0, 0x17};  // 0 -1 | 7 1
  const std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(codes)),
                                                      std::as_bytes(std::span(scales)),
                                                      std::as_bytes(std::span(zero_points))};
  std::vector<float> y(6);
  ThreadPool pool(1);
  weights::UnpackInteger(weight, parts, y, pool);
  EXPECT_THAT(y, ElementsAre(-2, -16, 0.5F, 0, -6, -3));
}

TEST(StoragePackedInteger, PartsAndNames) {
  const auto storage = [](const char* format, const weights::IntegerLayout& layout) {
    return weights::StoragePackedInteger(formats::FindFormat(format), std::vector<int64_t>{3, 5},
                                         layout);
  };
  const weights::IntegerLayout blocks{{3, 5, 1}, 2, true, {}};
  const weights::PackedStorage four = storage("uint4", blocks);
  EXPECT_EQ(four.function.name, "Unpack_uint4_asymmetric_padded");
  ASSERT_EQ(four.parts.size(), 3u);
  EXPECT_EQ(four.parts[0].type, DataType::kUInt8);
  EXPECT_THAT(four.parts[0].dims, ElementsAre(8));
  EXPECT_THAT(four.parts[1].dims, ElementsAre(3, 3, 1));
  EXPECT_THAT(four.parts[2].dims, ElementsAre(5));
  const weights::PackedStorage eight = storage("int8", {{1, 15, 1}, 15, false, 0});
  EXPECT_EQ(eight.function.name, "Unpack_int8");
  EXPECT_THAT(eight.parts[0].dims, ElementsAre(3, 5));
  EXPECT_THAT(eight.parts[1].dims, ElementsAre(1, 1, 1));
  EXPECT_EQ(eight.attributes.size(), 3u);  // no zero point
  EXPECT_EQ(storage("uint16", {{3, 5, 1}, 1, false, 32768}).attributes.size(), 4u);
}

class DamagedInteger : public testing::Test {
 protected:
  DamagedInteger() : model_(WideModel()) {
    Quantize(model_, "uint4", "per_block", "false", Storage::kPacked);
  }

  // Returns the reader's error for a node with these attributes, and inputs in this order.
  std::string Complaint(const std::vector<std::pair<std::string, graph::Attribute>>& attributes,
                        const std::vector<std::string>& inputs = {
                            "fc_weight_codes", "fc_weight_scales", "fc_weight_zero_points"}) {
    graph::Model model = model_.Clone();
    graph::NodeSpec spec{"damaged", "Unpack_uint4_asymmetric", "bitpress", inputs, {"damaged"}, {}};
    for (const auto& [name, value] : attributes) spec.attributes.emplace_back(name, value);
    const graph::Node node = model.InsertNode(spec, model.Nodes().front());
    try {
      weights::PackedWeightOf(model, node);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
      return error.what();
    }
    return "";
  }

  using Ints = std::vector<int64_t>;
  graph::Model model_;
};

TEST_F(DamagedInteger, IsRefusedWithTheReason) {
  const std::pair<std::string, graph::Attribute> shape{"shape", Ints{10, 80}};
  const std::pair<std::string, graph::Attribute> blocks{"blocks", Ints{10, 80, 1, 1}};
  const std::pair<std::string, graph::Attribute> size{"block_size", int64_t{7}};
  EXPECT_EQ(Complaint({shape, blocks, size}), "");
  EXPECT_THAT(Complaint({shape, blocks}), HasSubstr("'block_size' is 0"));
  EXPECT_THAT(Complaint({shape, blocks, {"block_size", int64_t{-7}}}), HasSubstr("'block_size'"));
  EXPECT_THAT(Complaint({shape, blocks, {"block_size", INT64_MAX}}), HasSubstr("does not follow"));
  EXPECT_THAT(Complaint({shape, {"blocks", Ints{10, 40, 2, 1}}, size}),
              HasSubstr("does not follow"));
  EXPECT_THAT(Complaint({{"shape", Ints{80, 10}}, {"blocks", Ints{80, 10, 1, 1}}, size}),
              HasSubstr("scales are FLOAT [10, 12, 1]"));
  EXPECT_THAT(Complaint({{"shape", Ints{10, 81}}, {"blocks", Ints{10, 81, 1, 1}}, size}),
              HasSubstr("codes are UINT8 [400], expected UINT8 [405]"));
  EXPECT_THAT(Complaint({shape, blocks, size}, {"fc_weight_codes", "fc_weight_scales"}),
              HasSubstr("2 inputs, expected 3"));
  EXPECT_THAT(Complaint({shape, blocks, size},
                        {"fc_weight_codes", "fc_weight_zero_points", "fc_weight_scales"}),
              HasSubstr("scales are UINT8"));
  EXPECT_THAT(Complaint({shape, blocks, size}, {"fc_weight_codes", "fc_weight_scales", ""}),
              HasSubstr("'' is not in the model"));
}

}  // namespace
}  // namespace bitpress::emit
