// Outputs of AMD Quark's own operators, bit for bit, through the scalar reference and through the
// kernels on every instruction set. Two sets: ours in tests/data/golden, and the full one it was
// taken from where it is on this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "data/npy.h"
#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/quark.h"
#include "formats/reference.h"
#include "kernels/cpu_target.h"
#include "kernels/fake_quantize.h"

namespace bitpress {
namespace {

using formats::FormatSpec;
using nlohmann::json;

const std::filesystem::path kOwnSet =
    std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests/data/golden";
const std::filesystem::path kFullSet = std::filesystem::path(BITPRESS_SHARED_DIR) / "golden";

struct GoldenSet {
  json cases;
  std::map<std::string, Tensor> arrays;
};

GoldenSet Load(const std::filesystem::path& folder, const std::string& kind) {
  GoldenSet set;
  std::ifstream file(folder / (kind + ".json"));
  set.cases = json::parse(file);
  const data::NpzFile npz(folder / (kind + ".npz"));
  for (size_t i = 0; i < npz.names().size(); ++i) set.arrays[npz.names()[i]] = npz.Read(i);
  return set;
}

std::vector<float> Floats(const Tensor& tensor) {
  EXPECT_EQ(tensor.type, DataType::kFloat);
  const std::span<const float> values = tensor.values<float>();
  return {values.begin(), values.end()};
}

// A tensor as [outer, axis_length, inner].
struct View {
  int64_t outer = 1;
  int64_t axis_length = 1;
  int64_t inner = 1;
};

View ViewOf(const std::vector<int64_t>& dims, int64_t axis) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  // Quark blocks tensors of one dimension along it, whatever the axis says.
  const int64_t at = rank == 1 ? 0 : (axis + rank) % rank;
  View view;
  for (int64_t i = 0; i < rank; ++i) {
    (i < at ? view.outer : i == at ? view.axis_length : view.inner) *= dims[static_cast<size_t>(i)];
  }
  return view;
}

FormatSpec SpecOf(const json& golden_case) {
  const json& attributes = golden_case["attrs"];
  if (golden_case["op"] == "MXQuantizeDequantize") {
    formats::QuarkMxAttributes mx;
    const std::string element_dtype = attributes.at("element_dtype");
    mx.element_dtype = element_dtype;
    mx.block_size = attributes.at("block_size");
    mx.rounding_mode = attributes.at("rounding_mode");
    return formats::QuarkSpec(mx);
  }
  formats::QuarkBfpAttributes bfp;
  const std::string method = attributes.at("bfp_method");
  bfp.bfp_method = method;
  bfp.bit_width = attributes.at("bit_width");
  bfp.block_size = attributes.at("block_size");
  bfp.rounding_mode = attributes.at("rounding_mode");
  bfp.sub_block_size = attributes.value("sub_block_size", bfp.sub_block_size);
  bfp.sub_block_shift_bits = attributes.value("sub_block_shift_bits", bfp.sub_block_shift_bits);
  return formats::QuarkSpec(bfp);
}

// Number of elements that differ, and where the first does.
void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected,
                    const std::vector<float>& x, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int64_t differences = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const bool both_nan = formats::IsNan(actual[i]) && formats::IsNan(expected[i]);
    if (both_nan || formats::FloatBits(actual[i]) == formats::FloatBits(expected[i])) continue;
    if (differences++ > 0) continue;
    ADD_FAILURE() << fmt::format("{}: element {} of {:a} is {:a}, Quark has {:a}", what, i, x[i],
                                 actual[i], expected[i]);
  }
  EXPECT_EQ(differences, 0) << what << ", of " << actual.size() << " elements";
}

class GoldenOutputs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    is_full_ = std::string(GetParam()) == "full";
    folder_ = is_full_ ? kFullSet : kOwnSet;
    if (is_full_ && !std::filesystem::exists(folder_)) {
      GTEST_SKIP() << "the full set (BITPRESS_SHARED_DIR) is not on this machine";
    }
  }
  void TearDown() override { kernels::UseTarget(""); }

  bool is_full_ = false;
  std::filesystem::path folder_;
};

INSTANTIATE_TEST_SUITE_P(Sets, GoldenOutputs, testing::Values("own", "full"),
                         [](const auto& set) { return std::string(set.param); });

// Calls function(spec, x, view, name) for every case and compares what it returns.
template <typename Function>
void ForEachCase(const GoldenSet& set, Function&& function) {
  size_t index = 0;
  for (const json& golden_case : set.cases) {
    const Tensor& input = set.arrays.at(golden_case["input"]);
    const std::vector<float> x = Floats(input);
    const std::vector<float> expected = Floats(set.arrays.at(golden_case["output"]));
    const View view = ViewOf(input.dims, golden_case["attrs"].at("axis"));
    const std::string name = fmt::format("case {} {}", index++, golden_case.dump());
    // The operator leaves tensors of one element alone; formats and kernels know no such rule.
    const std::vector<float> y = x.size() == 1 ? x : function(SpecOf(golden_case), x, view);
    ExpectSameBits(y, expected, x, name);
  }
}

TEST_P(GoldenOutputs, ReferenceEqualsQuark) {
  const GoldenSet set = Load(folder_, "block_formats");
  EXPECT_GE(set.cases.size(), is_full_ ? 390u : 20u);
  ForEachCase(set, [](const FormatSpec& spec, const std::vector<float>& x, const View& view) {
    std::vector<float> y(x.size());
    formats::ref::FakeQuantize(spec, x, y, view.outer, view.axis_length, view.inner);
    return y;
  });
}

TEST_P(GoldenOutputs, KernelsEqualQuarkOnEveryInstructionSet) {
  const GoldenSet set = Load(folder_, "block_formats");
  for (const std::string& target : kernels::SupportedTargets()) {
    SCOPED_TRACE(target);
    kernels::UseTarget(target);
    ForEachCase(set, [](const FormatSpec& spec, const std::vector<float>& x, const View& view) {
      std::vector<float> y(x.size());
      kernels::FakeQuantizer(spec, view.outer, view.axis_length, view.inner)
          .Run(x.data(), y.data());
      return y;
    });
    EXPECT_EQ(kernels::CurrentTarget(), target);
  }
}

// --- ExtendedQuantizeLinear and ExtendedDequantizeLinear
// -------------------------------------------------------------------------------------------

formats::ElementType TypeOf(const std::string& word) {
  const std::map<std::string, formats::ElementType> types = {
      {"uint8", formats::ElementType::kUInt8},     {"int8", formats::ElementType::kInt8},
      {"uint16", formats::ElementType::kUInt16},   {"int16", formats::ElementType::kInt16},
      {"uint32", formats::ElementType::kUInt32},   {"int32", formats::ElementType::kInt32},
      {"float16", formats::ElementType::kFloat16}, {"bfloat16", formats::ElementType::kBFloat16}};
  return types.at(word);
}

int64_t CodeAt(const Tensor& tensor, size_t i) {
  switch (tensor.type) {
    case DataType::kUInt8:
      return tensor.values<uint8_t>()[i];
    case DataType::kInt8:
      return tensor.values<int8_t>()[i];
    case DataType::kUInt16:
      return tensor.values<uint16_t>()[i];
    case DataType::kInt16:
      return tensor.values<int16_t>()[i];
    case DataType::kUInt32:
      return tensor.values<uint32_t>()[i];
    case DataType::kInt32:
      return tensor.values<int32_t>()[i];
    default:
      ADD_FAILURE() << DataTypeName(tensor.type);
      return 0;
  }
}

// Quark converts the rounded quotient to int64 before it saturates. What int64 does not hold
// becomes its smallest value there, as x86 processors have it, and the sum with a negative zero
// point wraps: +3e38 gives the smallest code. Formats saturate, and the test knows the difference.
int64_t QuarkCodeBeyondInt64(int64_t zero_point, formats::CodeRange range) {
  const auto sum =
      static_cast<int64_t>(static_cast<uint64_t>(INT64_MIN) + static_cast<uint64_t>(zero_point));
  return std::clamp(sum, range.quant_min, range.quant_max);
}

// One element there and back; `code` is what Quark stored for integers.
float QuantizeDequantize(float x, float scale, formats::ElementType type, int64_t zero_point,
                         int64_t code) {
  namespace ref = formats::ref;
  // Quark's float16 has neither scale nor zero point; its bfloat16 adds a zero point of +0, after
  // which -0 is +0.
  const bool has_scale = type != formats::ElementType::kFloat16;
  if (formats::TraitsOf(type).kind == formats::ElementKind::kFloat) {
    const double scaled = static_cast<double>(has_scale ? x / scale + 0.0f : x);
    const double value = ref::DecodeFloat(ref::EncodeFloat(scaled, type), type);
    return static_cast<float>(value) * (has_scale ? scale : 1.0f);
  }
  const formats::CodeRange range = formats::IntegerRange(type);
  const int64_t expected = ref::QuantizeInteger(x, scale, zero_point, range);
  if (std::fabs(x / scale) >= 0x1p63f) {
    EXPECT_EQ(code, QuarkCodeBeyondInt64(zero_point, range)) << x;
    EXPECT_EQ(expected, x > 0 ? range.quant_max : range.quant_min) << x;
  } else {
    EXPECT_EQ(code, expected) << x << " / " << scale << " + " << zero_point;
  }
  return ref::DequantizeInteger(code, scale, zero_point);
}

TEST_P(GoldenOutputs, QuantizeLinearEqualsQuark) {
  const GoldenSet set = Load(folder_, "extended_qdq");
  EXPECT_GE(set.cases.size(), is_full_ ? 90u : 10u);
  for (const json& golden_case : set.cases) {
    SCOPED_TRACE(golden_case.dump());
    const Tensor& input = set.arrays.at(golden_case["input"]);
    const std::vector<float> x = Floats(input);
    const std::vector<float> scale = Floats(set.arrays.at(golden_case["scale"]));
    const bool per_axis = !golden_case["axis"].is_null();
    const View view = ViewOf(input.dims, per_axis ? golden_case["axis"].get<int64_t>() : 0);
    const formats::ElementType type = TypeOf(golden_case["type"]);
    const bool is_float = formats::TraitsOf(type).kind == formats::ElementKind::kFloat;
    const int64_t zero_point = is_float ? 0 : golden_case["zero_point"].get<int64_t>();
    std::vector<float> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / view.inner % view.axis_length;
      const float element_scale = scale[per_axis ? static_cast<size_t>(row) : 0];
      const int64_t code = is_float ? 0 : CodeAt(set.arrays.at(golden_case["codes"]), i);
      y[i] = QuantizeDequantize(x[i], element_scale, type, zero_point, code);
    }
    ExpectSameBits(y, Floats(set.arrays.at(golden_case["dequantized"])), x, "dequantized");
  }
}

}  // namespace
}  // namespace bitpress
