// The table of formats: names, sizes, lookup, the words of options, and the errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "base/error.h"
#include "formats/format_spec.h"
#include "formats/parameters.h"

namespace bitpress::formats {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string MessageOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Table, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const FormatSpec& spec : AllFormats()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(FindFormat(spec.name), spec);
    EXPECT_NO_THROW(Validate(spec)) << spec.name;
  }
  for (const char* name :
       {"int2",       "uint2",      "int3",       "uint3",      "int4",   "uint4", "int8",
        "uint8",      "int16",      "uint16",     "int32",      "uint32", "fp16",  "bf16",
        "fp8_e4m3",   "fp8_e5m2",   "bfp16",      "mx4",        "mx6",    "mx9",   "mxfp8_e5m2",
        "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Table, NamesAreFoundInCapitalsAndWithSpaces) {
  EXPECT_EQ(FindFormat(" MXFP8_E4M3 ").name, "mxfp8_e4m3");
}

TEST(Table, OnnxHasNoIntegersOfThreeBits) {
  for (const FormatSpec& spec : AllFormats()) {
    EXPECT_EQ(spec.has_wider_onnx_type(), spec.is_integer() && spec.element_bits == 3) << spec.name;
  }
  EXPECT_EQ(FindFormat("int3").onnx_type, DataType::kInt4);
  EXPECT_EQ(FindFormat("uint3").onnx_type, DataType::kUInt4);
}

TEST(Table, BitsPerElementCountScalesAndMicroexponents) {
  const std::pair<const char*, double> expected[] = {
      {"int3", 3},          {"int4", 4},          {"uint16", 16},       {"bf16", 16},
      {"fp8_e4m3", 8},      {"bfp16", 9},         {"mx4", 4},           {"mx6", 6},
      {"mx9", 9},           {"mxfp8_e5m2", 8.25}, {"mxfp8_e4m3", 8.25}, {"mxfp6_e3m2", 6.25},
      {"mxfp6_e2m3", 6.25}, {"mxfp4_e2m1", 4.25}, {"mxint8", 8.25},
  };
  for (const auto& [name, bits] : expected) EXPECT_EQ(FindFormat(name).BitsPerElement(), bits);
  EXPECT_EQ(FindFormat("bfp(bits=13, block=32)").BitsPerElement(), 5.25);
  EXPECT_EQ(FindFormat("bfp(bits=10, block=16, exponent_bits=4)").BitsPerElement(), 6.25);
}

// OCP MX 1.0 table 1, and the largest element values of section 5.3.
TEST(Table, RangesOfTheMxFormats) {
  const struct {
    const char* name;
    double max_value;
    int max_exponent, fraction_bits;
  } rows[] = {
      {"mxfp8_e5m2", 57344, 15, 2},
      {"mxfp8_e4m3", 448, 8, 3},
      {"mxfp6_e3m2", 28, 4, 2},
      {"mxfp6_e2m3", 7.5, 2, 3},
      {"mxfp4_e2m1", 6, 2, 1},
      {"mxint8", 127.0 / 64, 0, 6},
      {"bfp16", 127.0 / 64, 0, 6},
      {"mx9", 127.0 / 64, 0, 6},
      {"mx6", 1.875, 0, 3},
      {"mx4", 1.5, 0, 1},
      {"bfp(bits=10, block=8)", 1, 0, 0},
  };
  for (const auto& row : rows) {
    const BlockRange range = RangeOf(FindFormat(row.name));
    EXPECT_EQ(range.max_value, row.max_value) << row.name;
    EXPECT_EQ(range.max_exponent, row.max_exponent) << row.name;
    EXPECT_EQ(range.fraction_bits, row.fraction_bits) << row.name;
    EXPECT_EQ(range.min_shared_exponent, -127);
    EXPECT_EQ(range.max_shared_exponent, 127);
  }
}

// The table's columns for zeros and specials: two's complement has no -0, the paper's MX4/6/9 have
// a NaN only for the whole block, FP8 follows ONNX's saturating cast.
TEST(Table, RulesOfTheFormats) {
  for (const FormatSpec& spec : AllFormats()) {
    SCOPED_TRACE(spec.name);
    const bool is_shared_microexponent = spec.sub_block_size > 0;
    const bool is_twos_complement = !spec.has_float_elements() && !spec.is_block_float();
    EXPECT_EQ(spec.rounding, RoundingMode::kHalfToEven);
    EXPECT_EQ(spec.scale_choice, spec.name == "nvfp4" ? ScaleChoice::kEven : ScaleChoice::kFloor);
    EXPECT_TRUE(spec.limit_shared_exponent);
    EXPECT_EQ(spec.zero_rule, is_twos_complement ? ZeroRule::kPositive : ZeroRule::kKeepSign);
    EXPECT_EQ(spec.flush_subnormals, is_shared_microexponent);
    if (spec.is_blocked()) {
      EXPECT_EQ(spec.special_rule,
                is_shared_microexponent ? SpecialRule::kNanBlock : SpecialRule::kPass);
      EXPECT_EQ(spec.block_size, spec.name == "bfp16"                            ? 8
                                 : spec.is_block_float() || spec.name == "nvfp4" ? 16
                                                                                 : 32);
    }
  }
}

// bf16 reaches far enough without a scale of the tensor; the other floats get all their values.
TEST(Table, FloatsHaveAScaleOfTheTensor) {
  EXPECT_EQ(FindFormat("bf16").scaled_maximum, 2);
  EXPECT_EQ(FindFormat("fp16").scaled_maximum, 65504);
  EXPECT_EQ(FindFormat("fp8_e4m3").scaled_maximum, 448);
  EXPECT_EQ(FindFormat("mxfp8_e4m3").scaled_maximum, 0);
  EXPECT_EQ(FindFormat("int8").scaled_maximum, 0);
  EXPECT_THAT(ScaledFormats(), testing::StartsWith("fp16, bf16, fp8_e4m3, fp8_e5m2"));
}

TEST(FindFormat, UnknownNamesSuggestTheNearest) {
  EXPECT_THAT(MessageOf([] { FindFormat("mxfp8_e4m4"); }),
              AllOf(HasSubstr("mxfp8_e4m4"), HasSubstr("did you mean 'mxfp8_e4m3'")));
  EXPECT_THAT(MessageOf([] { FindFormat("bfp61"); }), HasSubstr("bfp16"));
  EXPECT_THAT(MessageOf([] { FindFormat(""); }), HasSubstr("known formats: int2"));
}

TEST(BlockFloat, ParametersAreRead) {
  const FormatSpec spec = FindFormat("bfp(bits=13, block=32)");
  EXPECT_EQ(spec.name, "bfp(bits=13, block=32)");
  EXPECT_TRUE(spec.is_block_float());
  EXPECT_EQ(spec.element_bits, 5);
  EXPECT_EQ(spec.block_size, 32);
  EXPECT_EQ(spec.scale_bits, 8);
  const FormatSpec narrow = FindFormat("BFP( block = 7,exponent_bits=5 , bits=12 )");
  EXPECT_EQ(narrow.name, "bfp(bits=12, block=7, exponent_bits=5)");
  EXPECT_EQ(narrow.element_bits, 7);
  EXPECT_EQ(FindFormat(narrow.name), narrow);
  // bfp16 is bits=16, block=8.
  FormatSpec sixteen = FindFormat("bfp(bits=16, block=8)");
  sixteen.name = "bfp16";
  EXPECT_EQ(sixteen, FindFormat("bfp16"));
}

TEST(BlockFloat, BadParametersAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"bfp(bits=13)", "block is missing"},
      {"bfp(block=32)", "bits is missing"},
      {"bfp()", "bits=N, block=N"},
      {"bfp(bits=0, block=32)", "bits=0"},
      {"bfp(bits=13, block=0)", "block=0"},
      {"bfp(bits=13, block=-4)", "block=-4"},
      {"bfp(bits=13, block=65537)", "block=65537"},
      {"bfp(bits=13, block=99999999999999999999)", "block"},
      {"bfp(bits=1x, block=3)", "'1x' is not a whole number"},
      {"bfp(bits=13, blocks=32)", "block"},
      {"bfp(bits=13, block=32, foo)", "'foo'"},
      {"bfp(bits=9, block=32)", "2 to 24"},
      {"bfp(bits=33, block=32)", "2 to 24"},
      {"bfp(bits=13, block=32, exponent_bits=9)", "2 to 8"},
      {"bfp(bits=13, block=32, exponent_bits=1)", "2 to 8"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_THAT(MessageOf([name = text] { FindFormat(name); }), HasSubstr(part)) << text;
  }
}

TEST(Parameters, OfMicroexponentsAndMicroscaling) {
  FormatSpec mx6 = FindFormat("mx(bits=13, block=16)");
  mx6.name = "mx6";
  EXPECT_EQ(mx6, FindFormat("mx6"));
  const FormatSpec wide = FindFormat("MX(bits=12, block=32, sub_block=4, shift_bits=2)");
  EXPECT_EQ(wide.name, "mx(bits=12, block=32, sub_block=4, shift_bits=2)");
  EXPECT_EQ(wide.sub_block_size, 4);
  EXPECT_EQ(wide.sub_block_shift_bits, 2);
  EXPECT_EQ(wide.BitsPerElement(), 4 + 8.0 / 32 + 2.0 / 4);
  EXPECT_EQ(FindFormat(wide.name), wide);
  const FormatSpec short_blocks = FindFormat("mxfp8_e4m3(block=16)");
  EXPECT_EQ(short_blocks.name, "mxfp8_e4m3(block=16)");
  EXPECT_EQ(short_blocks.BitsPerElement(), 8.5);
  EXPECT_EQ(BaseName(short_blocks), "mxfp8_e4m3");
  // The size of the row is no parameter.
  EXPECT_EQ(FindFormat("mxint8(block=32)"), FindFormat("mxint8"));
  const std::pair<const char*, const char*> bad[] = {
      {"mx(bits=12, block=32, sub_block=3)", "a divisor of block_size"},
      {"mx(bits=12, block=32, shift_bits=5)", "0 to 4"},
      {"mx(bits=12, block=32, exponent_bits=5)", "'exponent_bits=5' is none of"},
      {"mxint8(block=0)", "block=0"},
      {"mxint8()", "block"},
      {"int8(block=16)", "unknown format"},
  };
  for (const auto& [text, part] : bad) {
    EXPECT_THAT(MessageOf([name = text] { FindFormat(name); }), HasSubstr(part)) << text;
  }
}

struct Broken {
  const char* format;
  const char* field;
  std::function<void(FormatSpec&)> change;
};

TEST(Validate, NamesTheFieldThatIsOutOfRange) {
  const Broken cases[] = {
      {"mx6", "block_size", [](FormatSpec& s) { s.block_size = 1 << 20; }},
      {"mx6", "block_size", [](FormatSpec& s) { s.block_size = -1; }},
      {"mxfp4_e2m1", "block_size", [](FormatSpec& s) { s.block_size = 0; }},
      {"mxint8", "block_size", [](FormatSpec& s) { s.block_size = 0; }},
      {"bfp16", "block_size", [](FormatSpec& s) { s.block_size = 0; }},
      {"bf16", "block_size", [](FormatSpec& s) { s.block_size = 32; }},
      {"int8", "block_size", [](FormatSpec& s) { s.block_size = 32; }},
      {"mx6", "exponent_bits", [](FormatSpec& s) { s.scale_bits = 9; }},
      {"mxint8", "exponent_bits", [](FormatSpec& s) { s.scale_bits = 1; }},
      {"bfp16", "element_bits", [](FormatSpec& s) { s.element_bits = 1; }},
      {"bfp16", "element_bits", [](FormatSpec& s) { s.element_bits = 25; }},
      {"mxfp4_e2m1", "element_bits", [](FormatSpec& s) { s.element_bits = 8; }},
      {"mxint8", "element_bits", [](FormatSpec& s) { s.element_bits = 4; }},
      {"fp16", "element_bits", [](FormatSpec& s) { s.element_bits = 8; }},
      {"mx6", "sub_block_size", [](FormatSpec& s) { s.sub_block_size = 3; }},
      {"mx6", "sub_block_size", [](FormatSpec& s) { s.sub_block_size = -2; }},
      {"mx6", "sub_block_size", [](FormatSpec& s) { s.sub_block_size = 32; }},
      {"mx6", "sub_block_shift_bits", [](FormatSpec& s) { s.sub_block_shift_bits = 5; }},
      {"mx6", "sub_block_shift_bits", [](FormatSpec& s) { s.sub_block_shift_bits = -1; }},
      {"mxint8", "sub_block_size", [](FormatSpec& s) { s.sub_block_size = 2; }},
      {"mxfp4_e2m1", "element type", [](FormatSpec& s) { s.element_type = ElementType::kInt16; }},
      {"bfp16", "element type", [](FormatSpec& s) { s.element_type = ElementType::kUInt8; }},
      {"fp16", "element type", [](FormatSpec& s) { s.element_type = ElementType::kSignMagnitude; }},
      {"fp16", "element_bits", [](FormatSpec& s) { s.element_type = ElementType::kInt8; }},
      {"int8", "element type", [](FormatSpec& s) { s.element_type = ElementType::kPowerOfTwo; }},
      {"int8", "element_bits", [](FormatSpec& s) { s.element_type = ElementType::kFloat16; }},
      {"mxfp4_e2m1", "half_up", [](FormatSpec& s) { s.rounding = RoundingMode::kHalfUp; }},
      {"fp16", "half_up", [](FormatSpec& s) { s.rounding = RoundingMode::kHalfUp; }},
      {"mxfp8_e4m3", "special", [](FormatSpec& s) { s.special_rule = SpecialRule::kSaturate; }},
      {"fp16", "special", [](FormatSpec& s) { s.special_rule = SpecialRule::kNanBlock; }},
  };
  for (const Broken& broken : cases) {
    FormatSpec spec = FindFormat(broken.format);
    broken.change(spec);
    EXPECT_THAT(MessageOf([&] { Validate(spec); }),
                AllOf(HasSubstr(broken.format), HasSubstr(broken.field)));
  }
}

TEST(Words, GoBothWaysAndRefuseOthers) {
  for (const ScaleChoice choice :
       {ScaleChoice::kFloor, ScaleChoice::kCeil, ScaleChoice::kEven, ScaleChoice::kMse}) {
    EXPECT_EQ(ParseScaleChoice(ScaleChoiceName(choice)), choice);
  }
  for (const RoundingMode mode :
       {RoundingMode::kHalfToEven, RoundingMode::kHalfAwayFromZero, RoundingMode::kHalfUp}) {
    EXPECT_EQ(ParseRoundingMode(RoundingModeName(mode)), mode);
  }
  EXPECT_THAT(MessageOf([] { ParseScaleChoice("ciel"); }),
              AllOf(HasSubstr("ciel"), HasSubstr("floor|ceil|even|mse")));
  EXPECT_THAT(MessageOf([] { ParseRoundingMode("nearest"); }), HasSubstr("half_to_even"));
}

TEST(ElementTypes, HaveOnnxNamesAndOneKind) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ElementType::kPowerOfTwo); ++i) {
    const ElementType type = static_cast<ElementType>(i);
    EXPECT_TRUE(names.insert(TraitsOf(type).name).second) << i;
    if (TraitsOf(type).kind == ElementKind::kFloat) {
      EXPECT_NO_THROW(LayoutOf(type));
      EXPECT_THROW(IntegerRange(type), Error);
    } else {
      EXPECT_THROW(LayoutOf(type), Error);
    }
  }
  EXPECT_TRUE(names.contains("FLOAT8E4M3FN"));
  EXPECT_TRUE(names.contains("FLOAT4E2M1"));
}

}  // namespace
}  // namespace bitpress::formats
