#include "ops/half_operators.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace bitpress::ops {
namespace {

using Row = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kLongSum = "it sums many values";
constexpr std::string_view kNorm = "it sums squares of many values";
constexpr std::string_view kCurve =
    "small errors of its input, or large inputs, become large errors";
constexpr std::string_view kWhole = "FLOAT16 has no whole numbers beyond 2048";
constexpr std::string_view kPositions = "it computes positions";
constexpr std::string_view kQuantizer = "scales of quantizers are FLOAT";

// ONNX Runtime's CPU provider has no FLOAT16 kernel for any of them.
constexpr std::array<Row, 56> kRows = {{
    {"Acosh", kCurve},
    {"AffineGrid", kPositions},
    {"Asinh", kCurve},
    {"Atanh", kCurve},
    {"Attention", kCurve},  // its Softmax, and masks beyond the range of FLOAT16
    {"BatchNormalization", kNorm},
    {"Ceil", kWhole},
    {"Cos", kCurve},
    {"Cosh", kCurve},
    {"CumProd", kLongSum},
    {"CumSum", kLongSum},
    {"DFT", kLongSum},
    {"DequantizeLinear", kQuantizer},
    {"Det", kLongSum},
    {"DynamicQuantizeLinear", kQuantizer},
    {"Exp", kCurve},
    {"Floor", kWhole},
    {"GridSample", kPositions},
    {"GroupNormalization", kNorm},
    {"InstanceNormalization", kNorm},
    {"LRN", kNorm},
    {"LayerNormalization", kNorm},
    {"Log", kCurve},
    {"LogSoftmax", kCurve},
    {"LpNormalization", kNorm},
    {"LpPool", kNorm},
    {"MaxRoiPool", kPositions},
    {"MaxUnpool", kPositions},
    {"MeanVarianceNormalization", kNorm},
    {"Mod", kWhole},
    {"NegativeLogLikelihoodLoss", kLongSum},
    {"Pow", kCurve},
    {"QuantizeLinear", kQuantizer},
    {"RMSNormalization", kNorm},
    {"Reciprocal", kCurve},
    {"ReduceL1", kLongSum},
    {"ReduceL2", kNorm},
    {"ReduceLogSum", kLongSum},
    {"ReduceLogSumExp", kCurve},
    {"ReduceMean", kLongSum},
    {"ReduceProd", kLongSum},
    {"ReduceSum", kLongSum},
    {"ReduceSumSquare", kNorm},
    {"Resize", kPositions},
    {"RoiAlign", kPositions},
    {"RotaryEmbedding", kPositions},
    {"Round", kWhole},
    {"STFT", kLongSum},
    {"Sin", kCurve},
    {"Sinh", kCurve},
    {"Softmax", kCurve},
    {"SoftmaxCrossEntropyLoss", kLongSum},
    {"Softplus", kCurve},
    {"Sqrt", kCurve},
    {"Tan", kCurve},
    {"Upsample", kPositions},
}};

}  // namespace

std::string_view WhyNotHalf(const graph::Node& node) {
  if (!node.domain().empty()) return "";
  const auto* const row = std::ranges::find(kRows, node.op_type(), &Row::first);
  if (row != kRows.end()) return row->second;
  if (node.op_type().starts_with("Scatter") && node.GetString("reduction", "none") != "none") {
    return "ONNX Runtime adds, multiplies and compares what it scatters in FLOAT only";
  }
  const bool is_square =
      node.op_type() == "Mul" && node.num_inputs() == 2 && node.input(0) == node.input(1);
  return is_square ? "squares leave the range of FLOAT16" : "";
}

bool IsCheapOnElements(const graph::Node& node) {
  constexpr std::array<std::string_view, 28> kNames = {
      "Abs",     "Add",       "Cast",      "Clip",  "Concat",  "Div", "Expand",
      "Flatten", "Gather",    "Identity",  "Max",   "Min",     "Mul", "Neg",
      "Pad",     "Reshape",   "Slice",     "Split", "Squeeze", "Sub", "Sum",
      "Tile",    "Transpose", "Unsqueeze", "Where", "Sqrt",    "Pow", "Reciprocal"};
  return node.domain().empty() && std::ranges::find(kNames, node.op_type()) != kNames.end();
}

bool SumsProducts(const graph::Node& node) {
  constexpr std::array<std::string_view, 4> kNames = {"Conv", "Einsum", "Gemm", "MatMul"};
  return node.domain().empty() && std::ranges::find(kNames, node.op_type()) != kNames.end();
}

}  // namespace bitpress::ops
