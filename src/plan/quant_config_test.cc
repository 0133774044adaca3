#include "plan/quant_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::plan {
namespace {

using formats::ScaleChoice;
using testing::HasSubstr;

template <typename Function>
std::string MessageOf(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ConfigByName, EveryPresetNamesAFormat) {
  EXPECT_EQ(AllPresets().size(), 53u);
  for (const Preset& preset : AllPresets()) {
    const QuantConfig config = ConfigByName(preset.name);
    EXPECT_EQ(config.name, preset.name);
    EXPECT_EQ(config.activations, preset.activations);
    EXPECT_EQ(config.weights, preset.weights);
    // Configurations with powers of two only have them for biases too.
    const bool is_power_of_two = config.weight_scale_kind == formats::ScaleKind::kPowerOfTwo;
    EXPECT_EQ(config.biases, is_power_of_two ? "int8" : "default");
    if (config.activations != "none") {
      EXPECT_EQ(formats::FindFormat(config.activations).name, preset.activations);
    }
    // FP16 has no format: the network itself becomes another one.
    EXPECT_EQ(config.weights == "none", config.network == Network::kFloat16);
    if (config.weights != "none") {
      EXPECT_EQ(formats::FindFormat(config.weights).name, preset.weights);
    }
    EXPECT_EQ(ConfigByName(ToLower(preset.name)), config);
  }
}

TEST(ConfigByName, TakesFormatNames) {
  EXPECT_EQ(ConfigByName("mxfp8_e4m3").weights, "mxfp8_e4m3");
  EXPECT_EQ(ConfigByName("FP8_E5M2").activations, "fp8_e5m2");
  EXPECT_EQ(ConfigByName("bfp(block=32,bits=13)").weights, "bfp(bits=13, block=32)");
}

TEST(ConfigByName, UnknownNamesGetTheNearest) {
  EXPECT_THAT(MessageOf([] { ConfigByName("MXFP8E4M4"); }), HasSubstr("did you mean 'MXFP8E4M3'"));
  EXPECT_THAT(MessageOf([] { ConfigByName("mxfp8_e4m"); }), HasSubstr("did you mean 'mxfp8_e4m3'"));
  EXPECT_THAT(MessageOf([] { ConfigByName("bfp(bits=13, blok=32)"); }), HasSubstr("blok"));
  EXPECT_THAT(MessageOf([] { ConfigByName(""); }), HasSubstr("MXINT8"));
}

TEST(ResolveRewrites, EqualizationIsOnForIntegersOfOneScale) {
  for (const char* name : {"XINT8", "S8S8_AAWS", "INT8_CNN_DEFAULT"}) {
    EXPECT_EQ(ResolveRewrites(ConfigByName(name)).equalization, EqualizeOptions()) << name;
  }
  for (const char* name : {"INT8", "MX6", "BF16"}) {
    QuantConfig config = ConfigByName(name);
    EXPECT_EQ(ResolveRewrites(config).equalization, std::nullopt) << name;
    ApplySetting(config, "equalize=on");
    ApplySetting(config, "equalize_clips=keep");
    ApplySetting(config, "equalize_steps=3");
    ASSERT_TRUE(ResolveRewrites(config).equalization) << name;
    EXPECT_EQ(ResolveRewrites(config).equalization->clips, ClipHandling::kKeep);
    EXPECT_EQ(ResolveRewrites(config).equalization->num_steps, 3);
  }
  QuantConfig config = ConfigByName("XINT8");
  ApplySetting(config, "equalize=off");
  EXPECT_EQ(ResolveRewrites(config).equalization, std::nullopt);
}

TEST(ResolveRewrites, RotationIsAPowerOfTwo) {
  QuantConfig config = ConfigByName("MXFP4E2M1");
  EXPECT_EQ(ResolveRewrites(config).rotation, 0);
  ApplySetting(config, "rotate=32");
  EXPECT_EQ(ResolveRewrites(config).rotation, 32);
  ApplySetting(config, "rotate=off");
  EXPECT_EQ(ResolveRewrites(config).rotation, 0);
  for (const char* word : {"rotate=24", "rotate=1", "rotate=-32", "rotate=4096", "rotate=on"}) {
    EXPECT_THAT(MessageOf([&] { ApplySetting(config, word); }), HasSubstr("rotate")) << word;
  }
}

TEST(ConfigByName, IntegerPresets) {
  const QuantConfig best = ConfigByName("INT8");
  EXPECT_EQ(best.activations, "uint8");
  EXPECT_EQ(best.weight_granularity, Granularity::kPerAxis);
  EXPECT_EQ(ResolvePlacement(best), Placement::kQdq);
  EXPECT_EQ(ResolvePlacement(ConfigByName("MX6")), Placement::kCompute);
  const QuantConfig xint8 = ConfigByName("XINT8");
  EXPECT_EQ(xint8.activation_symmetric, true);
  EXPECT_EQ(xint8.weight_scale_kind, formats::ScaleKind::kPowerOfTwo);
  EXPECT_EQ(xint8.activation_range.kind, RangeMethod::Kind::kMse);
}

TEST(ConfigByName, OurWeightsOfFourBitsHaveTheLeastErrorOfProducts) {
  for (const char* name : {"INT4_WEIGHTS", "LM_4BIT"}) {
    EXPECT_EQ(ConfigByName(name).weight_range.kind, RangeMethod::Kind::kAuto) << name;
  }
  for (const char* name : {"MATMUL_NBITS", "INT8_WEIGHTS"}) {
    EXPECT_EQ(ConfigByName(name).weight_range.kind, RangeMethod::Kind::kMinMax) << name;
  }
}

TEST(ResolveRewrites, Fp16IsANetwork) {
  QuantConfig config = ConfigByName("fp16");
  ApplySetting(config, "exclude_nodes=head");
  config.rules = {ParseRule("op_types=Gemm: exclude")};
  ASSERT_TRUE(ResolveRewrites(config).half);
  EXPECT_THAT(ResolveRewrites(config).half->float_nodes, testing::ElementsAre("head"));
  EXPECT_THAT(ResolveRewrites(config).half->float_op_types, testing::ElementsAre("Gemm"));
  ApplySetting(config, "activations=uint8");
  EXPECT_THAT(MessageOf([&] { ResolveRewrites(config); }), HasSubstr("network=float16"));
  EXPECT_FALSE(ResolveRewrites(ConfigByName("FP16_SIMULATED")).half);
  EXPECT_EQ(ConfigByName("FP16_ADAQUANT").name, "FP16_ADAQUANT");
  EXPECT_EQ(ConfigByName("mx6_blocks").name, "MX6_BLOCKS");
  EXPECT_EQ(FinetunePassNames(ConfigByName("mx6_blocks").finetune),
            "least_squares+gptq+adaquant+bias_correction+blocks");
  EXPECT_EQ(ConfigByName("four_bits").finetune, ConfigByName("mx6_blocks").finetune);
  EXPECT_EQ(FinetunePassNames(ConfigByName("int4_weights_blocks").finetune), "gptq+blocks");
}

TEST(ResolveEmbeddings, FollowsTheWeights) {
  const auto format_of = [](std::string_view name, std::initializer_list<const char*> settings) {
    QuantConfig config = ConfigByName(name);
    for (const char* const setting : settings) ApplySetting(config, setting);
    const std::optional<formats::FormatSpec> spec = ResolveEmbeddings(config);
    return spec ? spec->name : "none";
  };
  for (const auto& [name, format] : {std::pair{"INT8_DYNAMIC", "int8"},
                                     {"UINT8_DYNAMIC_QUANT", "uint8"},
                                     {"MX4", "mxint8"},
                                     {"MX6", "mxint8"},
                                     {"MX9", "mx9"},
                                     {"MXINT8", "mxint8"},
                                     {"MXFP4E2M1", "mxint8"},
                                     {"MXFP6E2M3", "mxint8"},
                                     {"MXFP8E4M3", "mxfp8_e4m3"},
                                     {"BFP16", "bfp16"},
                                     {"BF16", "bf16"},
                                     {"FP16", "none"},
                                     {"FP16_SIMULATED", "fp16"},
                                     {"FP16_ADAQUANT", "fp16"},
                                     {"MX6_ADAQUANT", "mxint8"},
                                     {"INT4_WEIGHTS", "uint8"},
                                     {"MATMUL_NBITS", "none"},
                                     {"INT8", "int8"},
                                     {"A8W8", "none"},
                                     {"fp8_e4m3", "none"},
                                     {"none", "none"}}) {
    EXPECT_EQ(format_of(name, {}), format) << name;
    EXPECT_EQ(format_of(name, {"embeddings=none"}), "none") << name;
  }
  EXPECT_EQ(format_of("MX6", {"weights=none"}), "none");
  EXPECT_EQ(format_of("MX6", {"weights=none", "embeddings=int8"}), "int8");
  EXPECT_EQ(format_of("INT8_DYNAMIC", {"activations=none"}), "none");
}

TEST(Settings, EveryOneRoundTrips) {
  QuantConfig config;
  config.name = "test";
  for (const char* assignment :
       {"activations=mx9", "weights=mxfp4_e2m1", "biases=bf16", "embeddings=int8", "placement=all",
        "activation_scale=even", "weight_scale=floor", "rounding=half_up", "operators=quark",
        "short_axis=channels", "block_axis=-1", "exclude_nodes=/a/.*;b",
        "exclude_op_types=Gemm; MatMul"}) {
    const QuantConfig before = config;
    ApplySetting(config, assignment);
    EXPECT_NE(config, before) << assignment;
  }
  QuantConfig copy;
  copy.name = "test";
  for (const Setting& setting : AllSettings()) {
    if (!setting.is_derived) ApplySetting(copy, setting.key, setting.get(config));
  }
  EXPECT_EQ(copy, config);
  EXPECT_THAT(config.exclude_op_types, testing::ElementsAre("Gemm", "MatMul"));
}

TEST(Settings, DefaultsAreReadBackAndTold) {
  for (const Setting& setting : AllSettings()) {
    if (setting.is_derived) continue;
    QuantConfig config;
    const std::string value = setting.get(config);
    ApplySetting(config, setting.key, value);
    EXPECT_EQ(config, QuantConfig()) << setting.key;
    const bool is_told = setting.help.ends_with(fmt::format(" (default {})", value));
    EXPECT_EQ(is_told, !value.empty() && value != "default") << setting.help;
  }
}

// Plans of before have all settings, those that are gone too.
TEST(Settings, ThoseThatAreGoneAreReadWithTheirDefault) {
  for (const auto& [key, value] : RemovedSettings()) {
    const auto read = [key = key](std::string_view text) {
      ConfigFromJson(fmt::format(R"({{"name":"old","{}":"{}"}})", key, text));
    };
    EXPECT_NO_THROW(read(value));
    EXPECT_THAT(MessageOf([&] { read("7"); }), HasSubstr(fmt::format("'{}' is gone", key)));
  }
}

TEST(Settings, AreAboutASideALayerOrTheModel) {
  const auto scope_of = [](std::string_view key) { return FindSetting(key).scope; };
  for (const char* key : {"weights", "weight_range", "integer_kernels", "short_axis", "biases"}) {
    EXPECT_EQ(scope_of(key), SettingScope::kWeights) << key;
  }
  for (const char* key : {"activations", "activation_scaled"}) {
    EXPECT_EQ(scope_of(key), SettingScope::kActivations) << key;
  }
  for (const char* key : {"finetune", "finetune_rounds"}) {
    EXPECT_EQ(scope_of(key), SettingScope::kFinetune) << key;
  }
  for (const Setting& setting : AllSettings()) {
    const std::string rule =
        fmt::format("op_types=Conv: {}={}", setting.key, setting.get(QuantConfig()));
    if (setting.is_per_node()) continue;
    EXPECT_THAT(MessageOf([&] { ParseRule(rule); }), HasSubstr("holds for the whole model"))
        << rule;
  }
}

TEST(Settings, WhatIsAtItsDefaultIsLeftOutOfJsonWhereItIsNew) {
  QuantConfig config;
  EXPECT_THAT(ToJson(config), testing::Not(HasSubstr("\"guard\"")));
  EXPECT_THAT(ToJson(config), HasSubstr("\"finetune_rounds\":\"20\""));
  ApplySetting(config, "guard=20");
  EXPECT_THAT(ToJson(config), HasSubstr("\"guard\":\"20\""));
}

TEST(Settings, ScaleSetsBothSides) {
  QuantConfig config;
  ApplySetting(config, "scale=even");
  EXPECT_EQ(config.activation_scale, ScaleChoice::kEven);
  EXPECT_EQ(config.weight_scale, ScaleChoice::kEven);
  ApplySetting(config, "scale=default");
  EXPECT_EQ(config.activation_scale, std::nullopt);
}

TEST(Settings, ErrorsNameKeyAndChoices) {
  QuantConfig config;
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "plcement=all"); }),
              HasSubstr("did you mean 'placement'"));
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "placement=al"); }),
              testing::AllOf(HasSubstr("placement"), HasSubstr("compute|all")));
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "weights=mxfp5"); }), HasSubstr("weights"));
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "scale=ceiling"); }), HasSubstr("scale"));
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "placement"); }), HasSubstr("key=value"));
  EXPECT_THAT(MessageOf([&] { ApplySetting(config, "exclude_nodes=("); }),
              HasSubstr("regular expression"));
  EXPECT_EQ(config, QuantConfig());
}

TEST(ResolveFormat, FillsInScaleAndRounding) {
  QuantConfig config = ConfigByName("MXINT8");
  ApplySetting(config, "weight_scale=floor");
  ApplySetting(config, "rounding=half_away_from_zero");
  const auto weight = ResolveFormat(config, Role::kWeight);
  ASSERT_TRUE(weight.has_value());
  EXPECT_EQ(weight->scale_choice, ScaleChoice::kFloor);
  EXPECT_EQ(weight->rounding, formats::RoundingMode::kHalfAwayFromZero);
  const auto activation = ResolveFormat(config, Role::kActivation);
  ASSERT_TRUE(activation.has_value());
  EXPECT_EQ(activation->scale_choice, DefaultScaleChoice(*activation, Role::kActivation));
  EXPECT_EQ(ResolveFormat(config, Role::kBias), std::nullopt);
}

TEST(ResolveFormat, FourBitsThatLearnInBlocksDoNotSaturate) {
  const auto choice = [](const std::string& name, const std::string& setting) {
    QuantConfig config = ConfigByName(name);
    ApplySetting(config, setting);
    return ResolveFormat(config, Role::kActivation)->scale_choice;
  };
  EXPECT_EQ(choice("MXFP4E2M1", "finetune=gptq"), ScaleChoice::kFloor);
  EXPECT_EQ(choice("MXFP4E2M1", "finetune=gptq+blocks"), ScaleChoice::kFloor);
  EXPECT_EQ(choice("FOUR_BITS", "finetune=gptq+blocks"), ScaleChoice::kEven);
  EXPECT_EQ(choice("FOUR_BITS", "activation_scale=floor"), ScaleChoice::kFloor);
  EXPECT_EQ(choice("MXFP6E2M3", "finetune=blocks"), ScaleChoice::kCeil);
}

TEST(ResolveFormat, SidesAreRoundedDifferently) {
  QuantConfig config = ConfigByName("MXINT8");
  config.activations = "mxfp8_e4m3";
  config.biases = "bf16";
  ApplySetting(config, "weight_rounding=half_up");
  EXPECT_EQ(ResolveFormat(config, Role::kWeight)->rounding, formats::RoundingMode::kHalfUp);
  for (const Role role : {Role::kActivation, Role::kBias}) {
    EXPECT_EQ(ResolveFormat(config, role)->rounding, formats::RoundingMode::kHalfToEven);
  }
}

TEST(ResolveFormat, FloatElementsRoundHalfToEven) {
  for (const char* format : {"mxfp8_e4m3", "bf16", "fp8_e4m3"}) {
    QuantConfig config = ConfigByName(format);
    ApplySetting(config, "rounding=half_up");
    EXPECT_THAT(MessageOf([&] { ResolveFormat(config, Role::kWeight); }), HasSubstr("half"))
        << format;
  }
}

TEST(CheckHasOperator, NoneQuantizesToThreeBits) {
  for (const OperatorSet operators : {OperatorSet::kBitpress, OperatorSet::kQuark}) {
    EXPECT_THAT(MessageOf([&] { CheckHasOperator(operators, formats::FindFormat("uint3")); }),
                HasSubstr("uint3 is for weights"));
    EXPECT_NO_THROW(CheckHasOperator(operators, formats::FindFormat("uint4")));
  }
}

TEST(CheckHasOperator, QuarkHasNoFloat8AndNoNarrowExponents) {
  for (const char* name :
       {"fp8_e4m3", "fp8_e5m2", "nvfp4", "bfp(bits=13, block=32, exponent_bits=5)"}) {
    const auto spec = formats::FindFormat(name);
    EXPECT_NO_THROW(CheckHasOperator(OperatorSet::kBitpress, spec)) << name;
    EXPECT_THAT(MessageOf([&] { CheckHasOperator(OperatorSet::kQuark, spec); }),
                HasSubstr("operators=bitpress"))
        << name;
  }
  for (const Preset& preset : AllPresets()) {
    if (preset.activations == "none" || preset.activations == "nvfp4") continue;
    EXPECT_NO_THROW(CheckHasOperator(OperatorSet::kQuark, formats::FindFormat(preset.activations)));
  }
}

}  // namespace
}  // namespace bitpress::plan
