#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "interop/decisions.h"
#include "interop/files.h"
#include "interop/quark_algorithms.h"
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
    {"name":"b","output_dtype":"int4","y_scale":[[0.1]],"axis":1,"block_size":32},
    {"name":"l","output_dtype":"int4","y_scale":{"x":[[16]],"x_scale":[0.1],"axis":0},"axis":1,"block_size":32}]})"));
  EXPECT_EQ(DecisionFor(third, "x").params, (std::vector<formats::QParams>{{0.25F, 7}}));
  EXPECT_FALSE(DecisionFor(third, "x").is_symmetric);
  EXPECT_EQ(DecisionFor(third, "w").axis, 0);
  EXPECT_EQ(DecisionFor(third, "b").granularity, Granularity::kPerBlock);
  EXPECT_EQ(DecisionFor(third, "l").block_size, 32);  // LPBQ as version 2.1.0 has it
  EXPECT_EQ(DecisionFor(third, "l").scale_kind, formats::ScaleKind::kLpbq);
  EXPECT_EQ(DecisionFor(third, "b").scale_kind, formats::ScaleKind::kFloat);
  EXPECT_EQ(DecisionFor(third, "b").params, (std::vector<formats::QParams>{{0.1F, 0}}));
  EXPECT_EQ(DecisionFor(third, "l").params, (std::vector<formats::QParams>{{16 * 0.1F, 0}}));
  EXPECT_TRUE(third.notes.empty());
  // Multiples whose largest is not 16 are others than ours.
  const Decisions others = FromAimet(Parse(R"({"version":"2.0.0","encodings":[
    {"name":"l","output_dtype":"int4","per_block_int_scale":[[8,4]],"per_channel_float_scale":[[0.1]],"axis":1,"block_size":32}]})"));
  EXPECT_TRUE(DecisionFor(others, "l").params.empty());
  EXPECT_THAT(others.notes, testing::ElementsAre(HasSubstr("'l': the scales of its blocks")));
}

TEST(Aimet, WritesMultiplesOfTheScalesOfChannels) {
  Decisions decisions;
  decisions.tensors.push_back({.value = "w",
                               .is_constant = true,
                               .format = "int4",
                               .granularity = Granularity::kPerBlock,
                               .axis = 1,
                               .block_size = 32,
                               .scale_kind = formats::ScaleKind::kLpbq});
  decisions.tensors[0].multiples = {
      .channels = {0.5F, 0.25F}, .channel_axis = 0, .dims = {2, 2}, .values = {16, 3, 16, 9}};
  std::vector<std::string> notes;
  EXPECT_EQ(nlohmann::json(ToAimet(decisions, FileKind::kAimet210, notes)["encodings"][0]),
            Parse(R"({"name":"w","output_dtype":"int4",
      "y_scale":{"x":[[16,3],[16,9]],"x_scale":[0.5,0.25],"axis":0},"axis":1,"block_size":32})"));
  EXPECT_EQ(nlohmann::json(ToAimet(decisions, FileKind::kAimet200, notes)["encodings"][0]),
            Parse(R"({"name":"w","output_dtype":"int4","per_channel_float_scale":[[0.5],[0.25]],
      "per_block_int_scale":[[16,3],[16,9]],"axis":1,"block_size":32})"));
  EXPECT_TRUE(notes.empty());
  ToAimet(decisions, FileKind::kAimet100, notes);
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("LPBQ")));
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

std::string ErrorOf(Decisions (*read)(const nlohmann::json&), const char* text) {
  try {
    read(Parse(text));
  } catch (const Error& refused) {
    return refused.what();
  }
  return "";
}

// A rule as text, as people write it.
std::vector<std::string> RuleTexts(const Decisions& decisions) {
  std::vector<std::string> texts;
  for (const plan::Rule& rule : decisions.rules) texts.push_back(plan::RuleText(rule));
  return texts;
}

TEST(IgnoredScope, BecomesRules) {
  const Decisions read = FromIgnoredScope(Parse(R"({"names":["stem"],"patterns":["conv_\\d"],
    "types":["Multiply","Gemm"],"subgraphs":[{"inputs":["a"],"outputs":["b"]}],"validate":false})"));
  EXPECT_THAT(RuleTexts(read), testing::ElementsAre("names=stem: exclude, optional",
                                                    "nodes=conv_\\d.*: exclude, optional",
                                                    "op_types=Mul;Gemm: exclude, optional",
                                                    "from=a to=b: exclude, optional"));
  EXPECT_THAT(read.notes, testing::ElementsAre("types: 'Multiply' is read as ONNX's Mul"));
  // OpenVINO's tools hold it so. `validate` is true by default.
  const Decisions held = FromIgnoredScope(
      Parse(R"({"quantization_config":{"bits":8,"ignored_scope":{"names":["stem"]}}})"));
  EXPECT_THAT(RuleTexts(held), testing::ElementsAre("names=stem: exclude"));
  EXPECT_THAT(held.notes, testing::ElementsAre(HasSubstr("'bits' is left out")));
}

// A pattern of NNCF fits the beginning of a name.
TEST(IgnoredScope, PatternsFitTheBeginning) {
  const plan::QuantPlan plan = [] {
    plan::QuantConfig config = plan::ConfigByName("INT8");
    Configure(FromIgnoredScope(Parse(R"({"patterns":["conv_[02]|gemm"]})")), config);
    return plan::MakePlan(config, plan::LoadModel("convnet.onnx"), "test");
  }();
  std::vector<std::string> names;
  for (const Decisions::FloatNode& node : DecisionsOf(plan).float_nodes) names.push_back(node.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("conv_0", "conv_2", "gemm_8"));
}

TEST(IgnoredScope, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(FromIgnoredScope, R"({"names":["a"],"pattern":["b"]})"),
              HasSubstr("'patterns'"));
  EXPECT_THAT(ErrorOf(FromIgnoredScope, R"({"names":[1]})"), HasSubstr("'names'"));
  EXPECT_THAT(ErrorOf(FromIgnoredScope, R"({"subgraphs":[{"inputs":["a"],"outputs":[]}]})"),
              HasSubstr("inputs and outputs"));
}

TEST(Genai, FirstOverrideCounts) {
  const Decisions read = FromGenai(Parse(R"({"weights":{"type":"int4","block_size":64,
    "method":"k_quant","accuracy_level":4,"op_types":["MatMul","Gather"],"overrides":[
      {"match":{"name":"a"},"exclude":true},{"match":{"preset":"last_matmul"},"type":"int8"},
      {"match":{"preset":"mixed_layers"},"type":"int8"}]},
    "moe":{"type":"mxfp4"},"io_dtype":"fp16",
    "runtime":{"use_qdq":true,"matmulnbits_weights_prepacked":0}})"));
  using testing::Pair;
  EXPECT_THAT(read.settings,
              testing::ElementsAre(Pair("weights", "int4"), Pair("weight_symmetric", "true"),
                                   Pair("weight_granularity", "per_block"),
                                   Pair("weight_block_size", "64"), Pair("activations", "none"),
                                   Pair("weight_range", "mse"), Pair("embeddings", "int4")));
  EXPECT_THAT(RuleTexts(read),
              testing::ElementsAre("not_op_types=MatMul;Gather;MoE: exclude, optional",
                                   "roles=attn_qkv;attn_v;mlp_down layers=mixed: weights=int8, "
                                   "embeddings=int8, optional",
                                   "roles=lm_head: weights=int8, embeddings=int8",
                                   "names=a: weights=none, embeddings=none",
                                   "op_types=MoE: weights=mxfp4_e2m1, optional"));
  EXPECT_THAT(read.notes, testing::ElementsAre(HasSubstr("--accuracy-level 4"),
                                               HasSubstr("'io_dtype' is left out"),
                                               HasSubstr("runtime.use_qdq is left out")));
  const Decisions rows = FromGenai(Parse(
      R"({"quantization":{"weights":{"type":"int8","symmetric":false,"block_size":"per_channel"}}})"));
  EXPECT_THAT(rows.settings,
              testing::IsSupersetOf({Pair("weights", "uint8"), Pair("weight_symmetric", "false"),
                                     Pair("weight_granularity", "per_axis")}));
}

TEST(Genai, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(FromGenai, R"({"weights":{"type":"int5"}})"), HasSubstr("type 'int5'"));
  EXPECT_THAT(ErrorOf(FromGenai, R"({"weights":{"typ":"int4"}})"), HasSubstr("'type'"));
  EXPECT_THAT(ErrorOf(FromGenai, R"({"weights":{"method":"gptq"}})"), HasSubstr("method 'gptq'"));
  EXPECT_THAT(ErrorOf(FromGenai, R"({"weights":{"overrides":[{"match":{"name":"a"}}]}})"),
              HasSubstr("a type, or exclude"));
  EXPECT_THAT(
      ErrorOf(FromGenai, R"({"weights":{"overrides":[{"match":{"preset":"all"},"type":"int8"}]}})"),
      HasSubstr("preset 'all'"));
}

// Layers of MatMul in integers of 4 and 8 bits.
TEST(Genai, WritesTheMostFrequentTypeAndOverrides) {
  Decisions decisions;
  const auto add = [&](const std::string& node, const std::string& op_type,
                       const std::string& format, int64_t block_size) {
    decisions.tensors.push_back({.value = node + ".weight",
                                 .uses = {{node, op_type, 1}},
                                 .is_constant = true,
                                 .format = format,
                                 .granularity = Granularity::kPerBlock,
                                 .block_size = block_size});
  };
  add("a", "MatMul", "int4", 32);
  add("b", "MatMul", "int4", 32);
  add("c", "MatMul", "int8", 32);
  add("d", "MatMul", "int4", 64);
  add("h", "MatMul", "mx6", 0);
  add("e", "Conv", "int4", 32);
  decisions.float_nodes = {{"f", "MatMul", true}, {"g", "Conv", true}, {"i", "MatMul"}};
  std::vector<std::string> notes;
  const nlohmann::ordered_json weights = ToGenai(decisions, notes)["weights"];
  EXPECT_EQ(weights["type"], "int4");
  EXPECT_EQ(weights["block_size"], 32);
  EXPECT_EQ(weights["overrides"], nlohmann::ordered_json::parse(R"([
    {"match":{"name":"c"},"type":"int8"},{"match":{"name":"h"},"exclude":true},
    {"match":{"name":"f"},"exclude":true}])"));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("'d.weight': symmetry and blocks"),
                                          HasSubstr("'h.weight' is left out: mx6; it is float"),
                                          HasSubstr("'e.weight' is left out: int4 of a Conv")));
}

TEST(Quark, SmallerPartsCountMore) {
  const Decisions read = FromQuark(Parse(R"({"global_config":{
      "input_tensors":{"symmetric":false,"scale_type":"ScaleType.PowerOf2",
        "calibration_method":"CalibMethod.Percentile","data_type":"UInt8"},
      "weight":{"symmetric":true,"calibration_method":"CalibMethod.MinMSE",
        "quant_granularity":"QuantGranularity.Channel","data_type":"Int8"}},
    "specific_layer_config":[[{"weight":{"data_type":"MX6"}},["head",[["a"],["b"]]]]],
    "layer_type_config":[[null,["Add"]]],"exclude":["stem","^dep.*",[[["a"],["b"]]]],
    "algo_config":[{"name":"cle"}],"extra_options":{"Percentile":99.9,"Int32Bias":true,
      "TensorQuantOverrides":{"x":[{"quant_type":"QuantType.QInt16","scale":0.5}]}}})"));
  EXPECT_EQ(DecisionFor(read, "x").format, "int16");
  using testing::Pair;
  EXPECT_THAT(read.settings,
              testing::IsSupersetOf(
                  {Pair("activations", "uint8"), Pair("activation_scale_kind", "power_of_two"),
                   Pair("activation_range", "percentile(99.9)"), Pair("weights", "int8"),
                   Pair("weight_range", "mse"), Pair("weight_granularity", "per_axis"),
                   Pair("equalize", "on")}));
  EXPECT_THAT(
      RuleTexts(read),
      testing::ElementsAre("op_types=Add: exclude, optional", "names=head: weights=mx6, optional",
                           "from=a to=b: weights=mx6", "names=stem: exclude, optional",
                           "nodes=^dep.*: exclude, optional", "from=a to=b: exclude"));
  EXPECT_THAT(read.notes, testing::ElementsAre("extra_options: 'Int32Bias' is left out"));
}

// The configuration that the algorithms give one with weights of another format.
plan::QuantConfig ConfigOf(const nlohmann::ordered_json& algorithms,
                           std::vector<std::string>& notes) {
  plan::QuantConfig config = plan::ConfigByName("MX6");
  for (const auto& [key, value] : ReadAlgorithms(nlohmann::json(algorithms), notes)) {
    plan::ApplySetting(config, key, value);
  }
  return config;
}

TEST(QuarkAlgorithms, AreSettingsAndBack) {
  for (
      const char* text : {
          R"([])",
          R"([{"name":"smooth_quant","alpha":0.75}])",
          R"([{"name":"cle","cle_steps":3,"cle_scale_append_bias":false}])",
          R"([{"name":"bias_correction"}])",
          R"([{"name":"adaround","data_size":7,"num_iterations":9,"target_op_type":["Conv","Gemm"]}])",
          R"([{"name":"smooth_quant","alpha":0.5},
               {"name":"cle","cle_steps":-1,"cle_scale_append_bias":true},
               {"name":"gptq","perc_damp":0.05,"act_order":false,"bits":4,"group_size":32,
                "per_channel":false,"weight_symmetric":false,"mse":true},
               {"name":"adaquant","fixed_seed":3}])",
          R"([{"name":"gptq","perc_damp":0.01,"act_order":true,"bits":8,"group_size":-1,
                "per_channel":true,"weight_symmetric":true,"mse":false},
               {"name":"bias_correction"},{"name":"adaround"}])",
      }) {
    SCOPED_TRACE(text);
    std::vector<std::string> notes;
    const auto algorithms = nlohmann::ordered_json::parse(text);
    EXPECT_EQ(WriteAlgorithms(ConfigOf(algorithms, notes), notes), algorithms);
    EXPECT_THAT(notes, SizeIs(0));
  }
}

TEST(QuarkAlgorithms, TakeTheDefaultsOfQuark) {
  std::vector<std::string> notes;
  const plan::QuantConfig config =
      ConfigOf(Parse(R"([{"name":"cle"},{"name":"gptq"},{"name":"smooth_quant"},
                {"name":"adaround","data_size":1000000000,"num_iterations":null}])"),
               notes);
  EXPECT_EQ(config.weights, "int8");
  EXPECT_EQ(config.weight_granularity, Granularity::kPerTensor);
  EXPECT_EQ(config.equalization.num_steps, 1);
  EXPECT_EQ(config.equalization.bias_share, 0.05);
  EXPECT_EQ(config.smooth_quant, plan::SmoothRequest{.alpha = 0.5});
  EXPECT_EQ(plan::FinetunePassNames(config.finetune), "gptq+adaround");
  EXPECT_EQ(config.finetune_settings, plan::FinetuneSettings());
  EXPECT_THAT(notes, SizeIs(0));
}

TEST(QuarkAlgorithms, NameWhatNoSettingMeans) {
  std::vector<std::string> notes;
  ConfigOf(Parse(R"([{"name":"adaround","learning_rate":0.1},{"name":"adaquant"},{"name":"quarot"},
                     {"name":"auto_mixprecision","target_layer_config":{}},
                     {"name":"cle","cle_weight_threshold":0.25}])"),
           notes);
  EXPECT_THAT(notes,
              testing::ElementsAre(
                  HasSubstr("'adaround': learning_rate is left out: weights are learned"),
                  HasSubstr("'adaquant' is left out: of AdaRound"),
                  HasSubstr("'quarot' is left out"), HasSubstr("'auto_mixprecision' is left out"),
                  HasSubstr("'cle': cle_weight_threshold is left out")));
  const auto error = [](const std::string& algorithm) {
    return ErrorOf(FromQuark,
                   (R"({"global_config":{},"algo_config":[)" + algorithm + "]}").c_str());
  };
  EXPECT_THAT(error(R"({"name":"adarond"})"), HasSubstr("did you mean 'adaround'"));
  EXPECT_THAT(error(R"({"name":"adaround","num_iteration":3})"), HasSubstr("'num_iterations'"));
  EXPECT_THAT(error(R"({"name":"adaround","perc_damp":3})"), HasSubstr("'perc_damp'"));
  EXPECT_THAT(error(R"({"name":"adaround","num_iterations":-3})"),
              HasSubstr("algo_config: 'adaround': num_iterations: setting finetune_rounds"));
  EXPECT_THAT(error(R"({"name":"gptq","bits":5})"), HasSubstr("'gptq': bits: integers of 5 bits"));
  EXPECT_THAT(error(R"({"name":"smooth_quant","alpha":2})"), HasSubstr("'smooth_quant': alpha"));
}

TEST(QuarkAlgorithms, SayWhatTheyCannotSay) {
  const auto notes_of = [](const char* preset, std::vector<std::string> settings) {
    plan::QuantConfig config = plan::ConfigByName(preset);
    for (const std::string& setting : settings) plan::ApplySetting(config, setting);
    std::vector<std::string> notes;
    WriteAlgorithms(config, notes);
    return notes;
  };
  EXPECT_THAT(notes_of("INT8", {"rotate=32", "smooth_quant=auto", "equalize=on"}),
              testing::ElementsAre(HasSubstr("rotate=32"), HasSubstr("smooth_quant=auto"),
                                   HasSubstr("equalize_bias=true")));
  EXPECT_THAT(notes_of("INT8", {"finetune=gptq+blocks"}),
              testing::ElementsAre(HasSubstr("finetune=gptq+blocks")));
  EXPECT_THAT(notes_of("INT8", {"finetune=adaround", "finetune_hold_back=4"}),
              testing::ElementsAre(HasSubstr("finetune_hold_back=4")));
  EXPECT_THAT(notes_of("MX6", {"finetune=gptq"}),
              testing::ElementsAre(HasSubstr("finetune=gptq+bias_correction is left out")));
}

TEST(Quark, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(FromQuark, R"({"global_config":{"weight":{"data_type":"Int9"}}})"),
              HasSubstr("data_type 'Int9'"));
  EXPECT_THAT(ErrorOf(FromQuark, R"({"global_config":{"weights":{}}})"), HasSubstr("'weight'"));
  EXPECT_THAT(ErrorOf(FromQuark, R"({"global_config":{},"exclude":[3]})"),
              HasSubstr("3 is neither"));
  EXPECT_THAT(ErrorOf(FromQuark, R"({"global_config":{},"layer_type_config":[["Add"]]})"),
              HasSubstr("pairs [layer, names]"));
}

TEST(Quark, SaysWhatItCannotSay) {
  Decisions decisions;
  decisions.tensors.push_back({.value = "x", .format = "fp8_e4m3"});
  decisions.tensors.push_back({.value = "y", .format = "uint8", .is_dynamic = true});
  decisions.tensors.push_back({.value = "z",
                               .format = "uint8",
                               .params = {{1.0F, 0}},
                               .range = {.kind = plan::RangeMethod::Kind::kMae}});
  std::vector<std::string> notes;
  ToQuark(decisions, notes);
  EXPECT_THAT(notes, testing::ElementsAre("'x' is left out: fp8_e4m3",
                                          "'y' is left out: uint8 with scales at run time",
                                          "'z': its range method is left out: mae",
                                          HasSubstr("scales of 1 tensor are left out")));
}

const graph::Model& Convnet() {
  static const graph::Model model = plan::LoadModel("convnet.onnx");
  return model;
}

plan::QuantPlan PlanOfConvnet() { return plan::PlanFor(Convnet(), "INT8"); }

const plan::TensorPlan& RowOf(const plan::QuantPlan& plan, plan::Role role) {
  return *std::ranges::find_if(plan.tensors, [&](const plan::TensorPlan& row) {
    return row.role == role && row.is_quantized();
  });
}

// A plan in which one layer is float, as a file that says so and back: the same plan. The file of a
// configuration gives formats, too, so that it is read for a plan with others.
TEST(Configure, ThroughAFileAndBack) {
  const auto make = [](const char* preset, const std::function<void(plan::QuantConfig&)>& change) {
    plan::QuantConfig config = plan::ConfigByName(preset);
    change(config);
    return plan::MakePlan(config, plan::LoadModel("convnet.onnx"), "test");
  };
  const plan::QuantPlan given = make("A8W8", [](plan::QuantConfig& config) {
    config.rules.push_back(plan::ParseRule("names=conv_2: exclude"));
    config.rules.push_back(plan::ParseRule("names=gemm_8: weights=int16"));
  });
  for (const auto& [kind, preset] :
       {std::pair(FileKind::kNncf, "A8W8"), {FileKind::kQuark, "INT8"}}) {
    SCOPED_TRACE(preset);
    ScratchFolder folder;
    const auto path = folder.path() / "decisions.json";
    std::vector<std::string> notes;
    std::ofstream(path) << Write(DecisionsOf(given), kind, notes);
    const plan::QuantPlan made = make(preset, [&](plan::QuantConfig& config) {
      Configure(ReadDecisions(path), config);
      if (kind == FileKind::kNncf) {
        config.rules.push_back(plan::ParseRule("names=gemm_8: weights=int16"));
      }
    });
    ASSERT_EQ(made.tensors.size(), given.tensors.size());
    for (size_t i = 0; i < made.tensors.size(); ++i) {
      EXPECT_EQ(made.tensors[i].value, given.tensors[i].value);
      EXPECT_EQ(made.tensors[i].format, given.tensors[i].format) << made.tensors[i].value;
    }
  }
}

// A plan with scales, as each kind of file for tensors and back: the same plan.
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
    if (kind > FileKind::kOverrides) continue;
    SCOPED_TRACE(word);
    ScratchFolder folder;
    const auto path = folder.path() / "decisions.json";
    std::vector<std::string> notes;
    std::ofstream(path) << Write(DecisionsOf(given), kind, notes);
    plan::QuantPlan made = PlanOfConvnet();
    const ImportReport report = Apply(ReadDecisions(path), Convnet(), made);
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
  const ImportReport report = Apply(decisions, Convnet(), plan);
  EXPECT_THAT(report.unmatched, testing::ElementsAre("elsewhere"));
  EXPECT_FALSE(report.now_float.empty());
  for (const plan::TensorPlan& row : plan.tensors) {
    EXPECT_EQ(row.is_quantized(), row.value == weight) << row.value;
    EXPECT_EQ(row.is_quantized(), row.reason.empty()) << row.value;
  }
}

// NNCF gives the inputs of depthwise convolutions such scales.
TEST(Apply, AnActivationTakesOneScaleForAllChannels) {
  plan::QuantPlan plan = PlanOfConvnet();
  Decision decision{.value = RowOf(plan, plan::Role::kActivation).value,
                    .format = "uint8",
                    .granularity = Granularity::kPerAxis,
                    .axis = 1,
                    .is_symmetric = false,
                    .params = {{0.5F, 0}, {0.25F, 128}, {2.0F, 0}}};
  const ImportReport report = Apply({.tensors = {decision}}, Convnet(), plan);
  const plan::TensorPlan& row = RowOf(plan, plan::Role::kActivation);
  EXPECT_EQ(row.integer->granularity, Granularity::kPerTensor);
  EXPECT_EQ(row.integer->params,
            formats::QParamsForRange(-32, 510, {formats::ElementType::kUInt8, false, false}));
  EXPECT_THAT(report.notes, testing::ElementsAre(HasSubstr("'" + decision.value + "'")));
}

TEST(Apply, NamesConstantsThatAreOthersInTheFile) {
  const std::string weight = RowOf(PlanOfConvnet(), plan::Role::kWeight).value;
  const std::span<const float> values = Convnet().Initializer(weight).values<float>();
  const auto notes = [&](float steps) {
    Decision decision{.value = weight, .is_constant = true, .format = "int8"};
    for (size_t i = 0; i < 20; ++i) {
      decision.first_values.push_back({values[i] + steps * 0.125F, 0.125F});
    }
    plan::QuantPlan plan = PlanOfConvnet();
    return Apply({.tensors = {decision}}, Convnet(), plan).notes;
  };
  EXPECT_THAT(notes(0.5F), SizeIs(0));
  EXPECT_THAT(notes(1), SizeIs(0));
  EXPECT_THAT(notes(-4), testing::ElementsAre(HasSubstr("'" + weight + "' are others")));
}

TEST(Apply, NamesTheTensorThatCannotTakeIt) {
  const auto error = [](Decision decision) -> std::string {
    plan::QuantPlan plan = PlanOfConvnet();
    decision.value = RowOf(plan, plan::Role::kActivation).value;
    try {
      Apply({.tensors = {decision}}, Convnet(), plan);
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
  decision.params = {};
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
