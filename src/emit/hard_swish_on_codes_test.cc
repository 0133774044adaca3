// HardSwish on codes: which are rewritten, and that the codes mean what a HardSigmoid gives.
#include "emit/hard_swish_on_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "emit/integer_codes.h"
#include "formats/reference.h"
#include "graph/test_models.h"

namespace bitpress::emit {
namespace {

constexpr float kScale = 0.03F;
constexpr int64_t kZeroPoint = 100;  // of uint8

// Returns x * HardSigmoid(x) between codes of a type. `gate` gives h, and `behind` y.
graph::Model Between(const std::string& gate, const std::string& type = "uint8",
                     const std::string& behind = "y = QuantizeLinear(p, t, z)") {
  graph::Model model = graph::FromTextWithConstants(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (" + type + "[256] c) => (" + type +
      "[256] y) <float s, float t, " + type + " z> { x = DequantizeLinear(c, s, z) " + gate +
      " p = Mul(x, h) " + behind + " }");
  const auto put = [&](const char* name, DataType kind, auto value) {
    model.SetInitializer(name, kind, {}, std::as_bytes(std::span(&value, 1)));
  };
  put("s", DataType::kFloat, kScale);
  put("t", DataType::kFloat, 0.02F);
  put("z", type == "int8" ? DataType::kInt8 : DataType::kUInt8,
      static_cast<uint8_t>(type == "int8" ? kZeroPoint - 128 : kZeroPoint));
  return model;
}

constexpr const char* kGate = "[gate] h = HardSigmoid <alpha = 0.16666667> (x)";

std::string OperatorsIn(const graph::Model& model) {
  std::vector<std::string> types;
  for (const graph::Node& node : model.Nodes()) types.push_back(node.op_type());
  return Join(types, " ");
}

float ScaleIn(const graph::Model& model, const std::string& name) {
  return model.Initializer(name).values<float>()[0];
}
int64_t CodeIn(const graph::Model& model, const std::string& name, bool is_signed) {
  const auto byte = std::to_integer<uint8_t>(model.Initializer(name).bytes[0]);
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

// All codes of both types: half a code for rounding, and one where the line is cut off at 1.
TEST(HardSwishOnCodes, GivesWhatAHardSigmoidDoes) {
  for (const std::string type : {"uint8", "int8"}) {
    const bool is_signed = type == "int8";
    const auto element = is_signed ? formats::ElementType::kInt8 : formats::ElementType::kUInt8;
    const formats::CodeRange range = formats::IntegerRange(element);
    graph::Model model = Between(kGate, type);
    ASSERT_EQ(HardSwishOnCodes(model), 1u);
    EXPECT_EQ(OperatorsIn(model),
              "DequantizeLinear DequantizeLinear Concat QuantizeLinear DequantizeLinear Mul "
              "QuantizeLinear");
    const graph::Node line = model.Nodes()[1], made = model.Nodes()[3], read = model.Nodes()[4];
    EXPECT_EQ(read.output(0), "h");
    EXPECT_EQ(line.input(0), "c");
    const int64_t zero_point = CodeIn(model, "z", is_signed);
    for (int64_t code = range.quant_min; code <= range.quant_max; ++code) {
      const auto of_line = static_cast<float>(code - zero_point) * ScaleIn(model, line.input(1));
      const int64_t between = formats::ref::QuantizeInteger(
          of_line, ScaleIn(model, made.input(1)), CodeIn(model, made.input(2), is_signed), range);
      const float found = static_cast<float>(between - CodeIn(model, read.input(2), is_signed)) *
                          ScaleIn(model, read.input(1));
      const float x = static_cast<float>(code - zero_point) * kScale;
      const float wanted = std::clamp(x * 0.16666667F + 0.5F, 0.0F, 1.0F);
      EXPECT_NEAR(found, wanted, (x > 2.9 ? 1.0F : 0.501F) / 256) << type << " " << code;
    }
    EXPECT_EQ(HardSwishOnCodes(model), 0u);
  }
}

// Older exporters write the line and its limits.
TEST(HardSwishOnCodes, TakesTheFormsOfClip) {
  for (const char* form : {"p = Mul(x, k) q = Div(p, six)", "p = Mul(k, x) q = Mul(p, sixth)",
                           "p = Div(k, six) q = Mul(x, p)", "p = Mul(k, sixth) q = Mul(x, p)"}) {
    graph::Model model = graph::FromTextWithConstants(
        std::string("<ir_version: 8, opset_import: [\"\" : 17]> g (uint8[256] c) => (uint8[256] y) "
                    "<float s, uint8 z, float zero, float three, float six, float sixth> { "
                    "x = DequantizeLinear(c, s, z) a = Add(x, three) k = Clip(a, zero, six) ") +
        form + " y = QuantizeLinear(q, s, z) }");
    for (const auto& [name, value] : {std::pair{"s", kScale}, std::pair{"three", 3.0F},
                                      std::pair{"six", 6.0F}, std::pair{"sixth", 1 / 6.0F}}) {
      model.SetInitializer(name, DataType::kFloat, {}, std::as_bytes(std::span(&value, 1)));
    }
    EXPECT_EQ(HardSwishOnCodes(model), 1u) << form;
    EXPECT_EQ(OperatorsIn(model),
              "DequantizeLinear DequantizeLinear Concat QuantizeLinear DequantizeLinear Mul "
              "QuantizeLinear");
    EXPECT_NEAR(ScaleIn(model, model.Nodes()[1].input(1)), kScale / 6, 1e-6);
  }
}

TEST(HardSwishOnCodes, LeavesOthers) {
  const auto count = [](graph::Model model) { return HardSwishOnCodes(model); };
  EXPECT_EQ(count(Between("h = HardSigmoid <alpha = 0.2, beta = 0.5> (x)")), 1u);
  // Another beta has no code, and a falling line would need other codes.
  EXPECT_EQ(count(Between("h = HardSigmoid <alpha = 0.2, beta = 0.3333> (x)")), 0u);
  EXPECT_EQ(count(Between("h = HardSigmoid <alpha = -0.2, beta = 0.5> (x)")), 0u);
  EXPECT_EQ(count(Between("h = Sigmoid(x)")), 0u);
  // The gate of something else, and one that somebody else reads.
  EXPECT_EQ(count(Between("w = DequantizeLinear(c, t, z) h = HardSigmoid(w)")), 0u);
  EXPECT_EQ(count(Between("h = HardSigmoid(x) r = Add(h, x)")), 0u);
  EXPECT_EQ(count(Between(kGate, "uint8", "q = Mul(p, h) y = QuantizeLinear(q, t, z)")), 0u);
  // A product that stays float in part.
  EXPECT_EQ(count(Between(kGate, "uint8", "r = Relu(p) y = QuantizeLinear(r, t, z)")), 0u);
}

}  // namespace
}  // namespace bitpress::emit
