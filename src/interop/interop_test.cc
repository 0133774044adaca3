#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "interop/decisions.h"
#include "interop/files.h"
#include "plan/test_support.h"

namespace bitpress::interop {
namespace {

using plan::Granularity;
using testing::HasSubstr;
using testing::SizeIs;

const Decision& DecisionFor(const Decisions& decisions, const std::string& value) {
  const auto found = std::ranges::find(decisions.tensors, value, &Decision::value);
  if (found == decisions.tensors.end()) throw std::runtime_error("no decision for " + value);
  return *found;
}

nlohmann::json Parse(const char* text) { return nlohmann::json::parse(text); }

// AIMET's documentation says of offsets that those of signed types count codes as unsigned ones.
TEST(Aimet, SignedTypesCountTheirCodesFromZeroBeforeVersion2) {
  const Decisions old = FromAimet(Parse(R"({"version":"0.6.1",
    "activation_encodings":{"x":[{"bitwidth":8,"dtype":"int","is_symmetric":"False","max":3.5,"min":-0.28,"offset":-19,"scale":0.015}]},
    "param_encodings":{"w":[{"bitwidth":4,"dtype":"int","is_symmetric":"True","max":0.7,"min":-0.8,"offset":-8,"scale":0.1},
                            {"bitwidth":4,"dtype":"int","is_symmetric":"True","max":1.4,"min":-1.6,"offset":-8,"scale":0.2}],
                       "f":[{"bitwidth":16,"dtype":"float"}]}})"));
  EXPECT_EQ(DecisionFor(old, "x").format, "uint8");
  EXPECT_EQ(DecisionFor(old, "x").params, (std::vector<formats::QParams>{{0.015F, 19}}));
  EXPECT_EQ(DecisionFor(old, "w").format, "int4");
  EXPECT_EQ(DecisionFor(old, "w").granularity, Granularity::kPerAxis);
  EXPECT_EQ(DecisionFor(old, "w").params, (std::vector<formats::QParams>{{0.1F, 0}, {0.2F, 0}}));
  EXPECT_EQ(DecisionFor(old, "f").format, "fp16");

  const Decisions second = FromAimet(Parse(R"({"version":"1.0.0","activation_encodings":[
    {"name":"x","enc_type":"PER_TENSOR","dtype":"INT","bw":16,"is_sym":false,"scale":[0.5],"offset":[-32768]}],
    "param_encodings":[{"name":"w","enc_type":"PER_CHANNEL","dtype":"INT","bw":8,"is_sym":true,"scale":[0.1,0.2],"offset":[-128,-128]}]})"));
  EXPECT_EQ(DecisionFor(second, "x").params, (std::vector<formats::QParams>{{0.5F, 32768}}));
  EXPECT_EQ(DecisionFor(second, "w").params, (std::vector<formats::QParams>{{0.1F, 0}, {0.2F, 0}}));

  const Decisions third = FromAimet(Parse(R"({"version":"2.0.0","encodings":[
    {"name":"x","output_dtype":"uint8","y_scale":0.25,"y_zero_point":7},
    {"name":"w","output_dtype":"int8","y_scale":[0.1,0.2],"axis":0},
    {"name":"b","output_dtype":"int4","y_scale":[[0.1]],"axis":1,"block_size":32}]})"));
  EXPECT_EQ(DecisionFor(third, "x").params, (std::vector<formats::QParams>{{0.25F, 7}}));
  EXPECT_FALSE(DecisionFor(third, "x").is_symmetric);
  EXPECT_EQ(DecisionFor(third, "w").axis, 0);
  EXPECT_EQ(DecisionFor(third, "b").granularity, Granularity::kPerBlock);
  EXPECT_THAT(third.notes, testing::ElementsAre(HasSubstr("'b': the scales of its blocks")));
}

TEST(Aimet, NamesTheTensorThatIsWrong) {
  const auto error = [](const char* text) -> std::string {
    try {
      FromAimet(Parse(text));
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_THAT(error(R"({"param_encodings":[{"name":"w","dtype":"INT","bw":8,"is_sym":true,
    "enc_type":"PER_TENSOR","scale":[0.1],"offset":[-0.5]}]})"),
              HasSubstr("tensor 'w': offset -0.5"));
  EXPECT_THAT(
      error(
          R"({"param_encodings":{"w":[{"bitwidth":7,"dtype":"int","is_symmetric":"True","scale":1,"offset":-64}]}})"),
      HasSubstr("tensor 'w': integers of 7 bits"));
  EXPECT_THAT(error(R"({"param_encodings":{"w":3}})"), HasSubstr("tensor 'w'"));
  EXPECT_THAT(error(R"({"encodings":[{"name":"w","output_dtype":"int8"}]})"), HasSubstr("y_scale"));
}

TEST(Overrides, GiveTypesScalesAndRanges) {
  const Decisions read = FromOverrides(Parse(R"({
    "x":[{"quant_type":"QUInt16","symmetric":false}],
    "y":[{"quant_type":"QInt8","rmin":-2.0,"rmax":1.0,"symmetric":true}],
    "w":[{"quant_type":"QInt8","axis":1,"scale":0.5},{"quant_type":"QInt8","axis":1,"scale":0.25}]})"));
  EXPECT_FALSE(read.names_all);
  EXPECT_EQ(DecisionFor(read, "x").format, "uint16");
  EXPECT_THAT(DecisionFor(read, "x").params, SizeIs(0));
  EXPECT_EQ(DecisionFor(read, "y").params, (std::vector<formats::QParams>{{4.0F / 254, 0}}));
  EXPECT_EQ(DecisionFor(read, "w").axis, 1);
  EXPECT_EQ(DecisionFor(read, "w").params, (std::vector<formats::QParams>{{0.5F, 0}, {0.25F, 0}}));
}

TEST(Overrides, SayWhatTheyCannotSay) {
  Decisions decisions;
  decisions.tensors.push_back({.value = "x", .format = "mx6"});
  decisions.tensors.push_back(
      {.value = "w", .format = "int4", .granularity = Granularity::kPerBlock, .block_size = 32});
  decisions.tensors.push_back({.value = "y", .format = "none"});
  std::vector<std::string> notes;
  EXPECT_EQ(ToOverrides(decisions, notes), nlohmann::ordered_json::object());
  EXPECT_THAT(notes,
              testing::ElementsAre("'x' is left out: mx6", "'w' is left out: int4 in blocks"));
}

plan::QuantPlan PlanOfConvnet() { return plan::PlanFor(plan::LoadModel("convnet.onnx"), "INT8"); }

const plan::TensorPlan& RowOf(const plan::QuantPlan& plan, plan::Role role) {
  return *std::ranges::find_if(plan.tensors, [&](const plan::TensorPlan& row) {
    return row.role == role && row.is_quantized();
  });
}

// A plan with scales, as each kind of file and back: the same plan.
TEST(Apply, ThroughEachKindOfFileAndBack) {
  plan::QuantPlan given = PlanOfConvnet();
  for (plan::TensorPlan& row : given.tensors) {
    if (!row.integer || row.has_scale_of_products()) continue;
    row.integer->shares.clear();  // the file gives the scale to each tensor
    row.integer->is_pair_safe = row.integer->may_be_unsigned = false;
    if (row.integer->granularity == Granularity::kPerAxis) {
      row.integer->channel_params = {{0.5F, 0}, {0.25F, 0}};
    } else {
      row.integer->params = formats::QParams{0.125F, 3};
    }
  }
  for (const auto& [word, kind] : kFileKindWords) {
    SCOPED_TRACE(word);
    ScratchFolder folder;
    const auto path = folder.path() / "decisions.json";
    std::vector<std::string> notes;
    std::ofstream(path) << Write(DecisionsOf(given), kind, notes);
    plan::QuantPlan made = PlanOfConvnet();
    const ImportReport report = Apply(ReadDecisions(path), made);
    EXPECT_THAT(report.unmatched, SizeIs(0));
    EXPECT_GT(report.num_rows, 4u);
    for (size_t i = 0; i < made.tensors.size(); ++i) {
      EXPECT_EQ(made.tensors[i], given.tensors[i]) << made.tensors[i].value;
    }
  }
}

TEST(Apply, WhatTheFileDoesNotNameStaysFloat) {
  plan::QuantPlan plan = PlanOfConvnet();
  const std::string weight = RowOf(plan, plan::Role::kWeight).value;
  Decisions decisions;
  decisions.tensors.push_back({.value = weight,
                               .is_constant = true,
                               .format = "int4",
                               .granularity = Granularity::kPerBlock,
                               .block_size = 32});
  decisions.tensors.push_back({.value = "elsewhere", .format = "int8"});
  const ImportReport report = Apply(decisions, plan);
  EXPECT_THAT(report.unmatched, testing::ElementsAre("elsewhere"));
  EXPECT_FALSE(report.now_float.empty());
  for (const plan::TensorPlan& row : plan.tensors) {
    EXPECT_EQ(row.is_quantized(), row.value == weight) << row.value;
    EXPECT_EQ(row.is_quantized(), row.reason.empty()) << row.value;
  }
}

TEST(Apply, NamesTheTensorThatCannotTakeIt) {
  const auto error = [](Decision decision) -> std::string {
    plan::QuantPlan plan = PlanOfConvnet();
    decision.value = RowOf(plan, plan::Role::kActivation).value;
    try {
      Apply({.tensors = {decision}}, plan);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  Decision decision;
  decision.format = "uint8";
  decision.params = {{1.0F, 256}};
  EXPECT_THAT(error(decision), HasSubstr("zero point 256"));
  decision.params = {{-1.0F, 0}};
  EXPECT_THAT(error(decision), HasSubstr("scale -1"));
  decision.granularity = Granularity::kPerAxis;
  decision.params = {{1.0F, 0}};
  EXPECT_THAT(error(decision), HasSubstr("an activation has one scale"));
  decision.granularity = Granularity::kPerBlock;
  decision.block_size = -5;
  EXPECT_THAT(error(decision), HasSubstr("blocks of -5 elements"));
}

TEST(ReadDecisions, SaysWhatItTakes) {
  ScratchFolder folder;
  const auto path = folder.path() / "other.json";
  std::ofstream(path) << R"({"layers": 3})";
  try {
    ReadDecisions(path);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& refused) {
    EXPECT_THAT(std::string(refused.what()), HasSubstr("other.json"));
    EXPECT_THAT(std::string(refused.what()), HasSubstr("TensorQuantOverrides"));
  }
}

}  // namespace
}  // namespace bitpress::interop
