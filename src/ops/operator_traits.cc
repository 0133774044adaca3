#include "ops/operator_traits.h"

#include <algorithm>
#include <string>

namespace bitpress::ops {

std::span<const OperatorTraits> AllOperatorTraits() {
  using enum OnIntegers;
  using enum Homogeneous;
  constexpr std::string_view kMicrosoft = "com.microsoft";
  constexpr std::string_view kQuark = "com.amd.quark";
  constexpr std::string_view kVitis = "com.vai.quantize";
  // Why an operator keeps FLOAT. ONNX Runtime's CPU provider has no FLOAT16 kernel for any of
  // these.
  constexpr std::string_view kLongSum = "it sums many values";
  constexpr std::string_view kState = "its state adds up roundings over all steps";
  constexpr std::string_view kNorm = "it sums squares of many values";
  constexpr std::string_view kCurve =
      "small errors of its input, or large inputs, become large errors";
  constexpr std::string_view kWhole = "FLOAT16 has no whole numbers beyond 2048";
  constexpr std::string_view kPositions = "it computes positions";
  constexpr std::string_view kQuantizer = "scales of quantizers are FLOAT";
  // clang-format off
  static constexpr OperatorTraits kRows[] = {
    {.op_type = "Abs", .is = kIsCheap},
    {.op_type = "Acosh", .why_not_half = kCurve},
    {.op_type = "Add", .on_integers = kComputes, .num_operands = 2, .qoperator = "QLinearAdd",
     .is = kMasks | kIsCheap},
    {.op_type = "AffineGrid", .why_not_half = kPositions},
    {.op_type = "ArgMax", .is = kGivesPlaces},
    {.op_type = "ArgMin", .is = kGivesPlaces},
    {.op_type = "Asinh", .why_not_half = kCurve},
    {.op_type = "Atanh", .why_not_half = kCurve},
    {.op_type = "Attention", .attention = Attention::kOfInputs,
     .cache = {.past = 4, .present = 1, .appended = 1}, .why_not_half = kCurve},
    {.op_type = "Attention", .domain = kMicrosoft, .attention = Attention::kHoldsProjection},
    {.op_type = "AveragePool", .on_integers = kComputes, .qoperator = "QLinearAveragePool",
     .lacks = "dilations", .homogeneous = kChannels},
    {.op_type = "BFPFixNeuron", .domain = kVitis, .is = kIsQuantizer},
    {.op_type = "BFPQuantizeDequantize", .domain = kQuark, .is = kIsQuantizer},
    {.op_type = "BatchNormalization", .why_not_half = kNorm},
    {.op_type = "BiasGelu", .domain = kMicrosoft, .is = kIsActivation},
    {.op_type = "BiasSplitGelu", .domain = kMicrosoft, .is = kSplits},
    {.op_type = "Cast", .is = kConverts | kIsCheap},
    {.op_type = "CastLike", .is = kConverts},
    {.op_type = "Ceil", .why_not_half = kWhole},
    {.op_type = "Clip", .on_integers = kFuses, .is = kIsActivation | kIsCheap},
    {.op_type = "Concat", .on_integers = kJoins, .num_operands = kAllInputs,
     .qoperator = "QLinearConcat"},
    {.op_type = "Conv", .product = Product::kConv, .num_operands = 2, .qoperator = "QLinearConv",
     .dynamic = "ConvInteger"},
    {.op_type = "ConvInteger", .codes = {Product::kConv, 0, 2, 1, 3, -1, /*adds_pairs=*/false}},
    {.op_type = "ConvTranspose", .product = Product::kConvTranspose, .num_operands = 2},
    {.op_type = "Cos", .why_not_half = kCurve},
    {.op_type = "Cosh", .why_not_half = kCurve},
    {.op_type = "CumProd", .why_not_half = kLongSum},
    {.op_type = "CumSum", .why_not_half = kLongSum},
    {.op_type = "DFT", .why_not_half = kLongSum},
    {.op_type = "DecoderMaskedMultiHeadAttention", .domain = kMicrosoft,
     .attention = Attention::kOfInputs},
    {.op_type = "DecoderMaskedSelfAttention", .domain = kMicrosoft,
     .attention = Attention::kHoldsProjection},
    {.op_type = "DepthToSpace", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "DequantizeLinear", .is = kIsQuantizer, .why_not_half = kQuantizer},
    {.op_type = "DequantizeLinear", .domain = kMicrosoft, .is = kIsQuantizer},
    {.op_type = "Det", .why_not_half = kLongSum},
    {.op_type = "Div", .is = kIsCheap},
    {.op_type = "Dropout", .on_integers = kMoves},
    {.op_type = "DynamicQuantizeLSTM", .domain = kMicrosoft, .codes = {Product::kRecurrent, 0, -1, 1, 9, 2}},
    {.op_type = "DynamicQuantizeLinear", .is = kIsQuantizer, .why_not_half = kQuantizer},
    {.op_type = "DynamicQuantizeMatMul", .domain = kMicrosoft, .codes = {Product::kMatMul, 0, -1, 1, 3}},
    {.op_type = "Einsum", .product = Product::kEinsum},
    {.op_type = "Elu", .is = kIsActivation},
    {.op_type = "Erf", .is = kIsActivation},
    {.op_type = "Exp", .why_not_half = kCurve},
    {.op_type = "Expand", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "ExtendedDequantizeLinear", .domain = kQuark, .is = kIsQuantizer},
    {.op_type = "ExtendedQuantizeLinear", .domain = kQuark, .is = kIsQuantizer},
    {.op_type = "FastGelu", .domain = kMicrosoft, .is = kIsActivation},
    {.op_type = "Flatten", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "Floor", .why_not_half = kWhole},
    {.op_type = "FusedConv", .domain = kMicrosoft, .product = Product::kConv, .num_operands = 2,
     .qoperator = "QLinearConv"},
    {.op_type = "FusedGemm", .domain = kMicrosoft, .product = Product::kGemm, .num_operands = 2,
     .qoperator = "QGemm"},
    {.op_type = "FusedMatMul", .domain = kMicrosoft, .product = Product::kMatMul,
     .num_operands = 2},
    {.op_type = "GRU", .product = Product::kRecurrent, .why_not_half = kState},
    {.op_type = "Gather", .on_integers = kMoves, .is = kTakesCodes | kSplits | kLooksUp},
    {.op_type = "GatherElements", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "Gelu", .is = kIsActivation},
    {.op_type = "Gelu", .domain = kMicrosoft, .is = kIsActivation},
    {.op_type = "Gemm", .product = Product::kGemm, .num_operands = 2, .qoperator = "QGemm",
     .dynamic = "MatMulInteger"},
    {.op_type = "GemmFastGelu", .domain = kMicrosoft, .product = Product::kMatMul,
     .num_operands = 2},
    {.op_type = "GlobalAveragePool", .on_integers = kComputes,
     .qoperator = "QLinearGlobalAveragePool", .homogeneous = kChannels},
    {.op_type = "GlobalMaxPool", .homogeneous = kChannels},
    {.op_type = "GridSample", .why_not_half = kPositions},
    {.op_type = "GroupNormalization", .why_not_half = kNorm},
    {.op_type = "GroupQueryAttention", .domain = kMicrosoft, .attention = Attention::kOfInputs,
     .cache = {.past = 3, .present = 1, .appended = 1, .takes_codes = true}},
    {.op_type = "HardSigmoid", .is = kGivesScores | kIsActivation},
    {.op_type = "HardSwish", .on_integers = kComputes, .is = kIsActivation},
    {.op_type = "Identity", .on_integers = kMoves, .homogeneous = kElements, .is = kTakesCodes},
    {.op_type = "InstanceNormalization", .why_not_half = kNorm},
    {.op_type = "LRN", .why_not_half = kNorm},
    {.op_type = "LSTM", .product = Product::kRecurrent, .dynamic = "DynamicQuantizeLSTM",
     .why_not_half = kState},
    {.op_type = "LayerNormalization", .norm = {.scale = 1, .shift = 2}, .why_not_half = kNorm},
    {.op_type = "LeakyRelu", .on_integers = kComputes, .qoperator = "QLinearLeakyRelu",
     .homogeneous = kElements, .is = kIsActivation},
    {.op_type = "Log", .why_not_half = kCurve},
    {.op_type = "LogSoftmax", .why_not_half = kCurve},
    {.op_type = "LpNormalization", .why_not_half = kNorm},
    {.op_type = "LpPool", .why_not_half = kNorm},
    {.op_type = "MXFixNeuron", .domain = kVitis, .is = kIsQuantizer},
    {.op_type = "MXQuantizeDequantize", .domain = kQuark, .is = kIsQuantizer},
    {.op_type = "MatMul", .product = Product::kMatMul, .num_operands = 2,
     .qoperator = "QLinearMatMul",
     .dynamic = "MatMulInteger"},
    {.op_type = "MatMulInteger", .codes = {Product::kMatMul, 0, 2, 1, 3}},
    {.op_type = "MatMulIntegerToFloat", .domain = kMicrosoft, .codes = {Product::kMatMul, 0, 4, 1, 5}},
    {.op_type = "Max", .is = kIsCheap},
    {.op_type = "MaxPool", .on_integers = kMoves, .homogeneous = kChannels,
     .is = kTakesCodes | kSelects},
    {.op_type = "MaxRoiPool", .why_not_half = kPositions},
    {.op_type = "MaxUnpool", .why_not_half = kPositions},
    {.op_type = "MeanVarianceNormalization", .why_not_half = kNorm},
    {.op_type = "Min", .on_integers = kCutsOff, .is = kIsCheap},
    {.op_type = "Mish", .is = kIsActivation},
    {.op_type = "MoE", .domain = kMicrosoft, .product = Product::kExperts},
    {.op_type = "Mod", .why_not_half = kWhole},
    {.op_type = "Mul", .on_integers = kComputes, .num_operands = 2, .qoperator = "QLinearMul",
     .is = kMasks | kIsCheap},
    {.op_type = "MultiHeadAttention", .domain = kMicrosoft, .attention = Attention::kOfInputs,
     .cache = {.past = 6, .present = 1, .appended = 1}},
    {.op_type = "Neg", .is = kIsCheap},
    {.op_type = "NegativeLogLikelihoodLoss", .why_not_half = kLongSum},
    {.op_type = "NonMaxSuppression", .is = kGivesPlaces},
    {.op_type = "NonZero", .is = kGivesPlaces},
    {.op_type = "PRelu", .homogeneous = kElements, .is = kIsActivation},
    {.op_type = "PackedAttention", .domain = kMicrosoft, .attention = Attention::kHoldsProjection},
    {.op_type = "PackedMultiHeadAttention", .domain = kMicrosoft,
     .attention = Attention::kOfInputs},
    {.op_type = "Pad", .is = kMasks | kIsCheap},
    {.op_type = "PagedAttention", .domain = kMicrosoft, .attention = Attention::kOfInputs},
    {.op_type = "Pow", .is = kIsActivation | kIsCheap, .why_not_half = kCurve},
    {.op_type = "QAttention", .domain = kMicrosoft, .attention = Attention::kHoldsProjection,
     .codes = {Product::kMatMul, 0, 6, 1, 7}},
    {.op_type = "QGemm", .domain = kMicrosoft, .codes = {Product::kGemm, 0, 2, 3, 5}},
    {.op_type = "QLinearConv", .codes = {Product::kConv, 0, 2, 3, 5}},
    {.op_type = "QLinearMatMul", .codes = {Product::kMatMul, 0, 2, 3, 5}},
    {.op_type = "QuantizeLinear", .is = kIsQuantizer, .why_not_half = kQuantizer},
    {.op_type = "QuantizeLinear", .domain = kMicrosoft, .is = kIsQuantizer},
    {.op_type = "QuickGelu", .domain = kMicrosoft, .is = kIsActivation},
    {.op_type = "RMSNormalization", .norm = {.scale = 1}, .why_not_half = kNorm},
    {.op_type = "RNN", .product = Product::kRecurrent, .why_not_half = kState},
    {.op_type = "Reciprocal", .is = kIsCheap, .why_not_half = kCurve},
    {.op_type = "ReduceL1", .why_not_half = kLongSum},
    {.op_type = "ReduceL2", .why_not_half = kNorm},
    {.op_type = "ReduceLogSum", .why_not_half = kLongSum},
    {.op_type = "ReduceLogSumExp", .why_not_half = kCurve},
    {.op_type = "ReduceMax", .on_integers = kMoves, .is = kTakesCodes | kSelects},
    {.op_type = "ReduceMean", .why_not_half = kLongSum},
    {.op_type = "ReduceMin", .on_integers = kMoves, .is = kTakesCodes | kSelects},
    {.op_type = "ReduceProd", .why_not_half = kLongSum},
    {.op_type = "ReduceSum", .why_not_half = kLongSum},
    {.op_type = "ReduceSumSquare", .why_not_half = kNorm},
    {.op_type = "Relu", .on_integers = kFuses, .homogeneous = kElements, .is = kIsActivation},
    {.op_type = "Reshape", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "Resize", .on_integers = kMoves, .is = kTakesCodes | kNearestOnly,
     .why_not_half = kPositions},
    {.op_type = "RoiAlign", .why_not_half = kPositions},
    {.op_type = "RotaryEmbedding", .why_not_half = kPositions},
    {.op_type = "Round", .why_not_half = kWhole},
    {.op_type = "STFT", .why_not_half = kLongSum},
    {.op_type = "Shape", .is = kReadsShape},
    {.op_type = "Sigmoid", .on_integers = kComputes, .qoperator = "QLinearSigmoid",
     .is = kGivesScores | kIsActivation},
    {.op_type = "Silu", .domain = kMicrosoft, .is = kIsActivation},
    {.op_type = "SimplifiedLayerNormalization", .norm = {.scale = 1}},
    {.op_type = "Sin", .why_not_half = kCurve},
    {.op_type = "Sinh", .why_not_half = kCurve},
    {.op_type = "Size", .is = kReadsShape},
    {.op_type = "SkipLayerNormalization", .domain = kMicrosoft,
     .norm = {.scale = 2, .shift = 3, .adds = true}},
    {.op_type = "SkipSimplifiedLayerNormalization", .domain = kMicrosoft,
     .norm = {.scale = 2, .adds = true}},
    {.op_type = "Slice", .on_integers = kMoves, .is = kTakesCodes | kSplits},
    {.op_type = "Softmax", .qoperator = "QLinearSoftmax", .is = kGivesScores,
     .why_not_half = kCurve},
    {.op_type = "SoftmaxCrossEntropyLoss", .why_not_half = kLongSum},
    {.op_type = "Softplus", .is = kIsActivation, .why_not_half = kCurve},
    {.op_type = "SpaceToDepth", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "SparseAttention", .domain = kMicrosoft, .attention = Attention::kOfInputs},
    {.op_type = "Split", .on_integers = kMoves, .is = kTakesCodes | kSplits},
    {.op_type = "Sqrt", .is = kIsCheap, .why_not_half = kCurve},
    {.op_type = "Squeeze", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "Sub", .is = kMasks | kIsCheap},
    {.op_type = "Sum", .is = kIsCheap},
    {.op_type = "Swish", .is = kIsActivation},
    {.op_type = "Tan", .why_not_half = kCurve},
    {.op_type = "Tanh", .is = kIsActivation},
    {.op_type = "Tile", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "TopK", .is = kGivesPlaces},
    {.op_type = "Transpose", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "TransposeMatMul", .domain = kMicrosoft, .product = Product::kMatMul,
     .num_operands = 2},
    {.op_type = "Unique", .is = kGivesPlaces},
    {.op_type = "Unsqueeze", .on_integers = kMoves, .is = kTakesCodes},
    {.op_type = "Upsample", .why_not_half = kPositions},
    {.op_type = "VitisDequantizeLinear", .domain = kVitis, .is = kIsQuantizer},
    {.op_type = "VitisQuantizeLinear", .domain = kVitis, .is = kIsQuantizer},
    {.op_type = "Where", .num_operands = kAllInputs, .qoperator = "QLinearWhere",
     .is = kMasks | kIsCheap},
  };
  // clang-format on
  static_assert(std::ranges::is_sorted(kRows, {}, &OperatorTraits::op_type));
  return kRows;
}

const OperatorTraits& TraitsNamed(std::string_view op_type) {
  static constexpr OperatorTraits kUnknown;
  const std::span<const OperatorTraits> rows = AllOperatorTraits();
  const auto found = std::ranges::lower_bound(rows, op_type, {}, &OperatorTraits::op_type);
  return found != rows.end() && found->op_type == op_type ? *found : kUnknown;
}

const OperatorTraits& TraitsOf(const graph::Node& node) {
  static constexpr OperatorTraits kUnknown;
  const std::string_view domain = node.domain() == "ai.onnx" ? "" : std::string_view(node.domain());
  for (const OperatorTraits& row : std::ranges::equal_range(AllOperatorTraits(), node.op_type(), {},
                                                            &OperatorTraits::op_type)) {
    if (row.domain == domain) return row;
  }
  return kUnknown;
}

bool MovesElements(const graph::Node& node) {
  const OperatorTraits& traits = TraitsOf(node);
  const bool keeps = !traits.Is(kNearestOnly) || node.GetString("mode", "nearest") == "nearest";
  return traits.on_integers == OnIntegers::kMoves && keeps;
}

bool PassesElementsOn(const graph::Node& node) {
  const OperatorTraits& traits = TraitsOf(node);
  return (MovesElements(node) && !traits.Is(kSelects)) || traits.Is(kConverts) ||
         traits.on_integers == OnIntegers::kJoins;
}

bool IsCheapOnElements(const graph::Node& node) {
  return MovesElements(node) || PassesElementsOn(node) || TraitsOf(node).Is(kIsCheap);
}

}  // namespace bitpress::ops
