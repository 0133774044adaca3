#include "plan/target_conditions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "formats/format_spec.h"
#include "ops/compute_ops.h"
#include "ops/hand_decoders.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "ops/web_operators.h"
#include "plan/shift_conditions.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

using graph::Node;

Found Truth(bool truth, std::string text) { return {.truth = truth, .text = std::move(text)}; }
Found Word(std::string word, std::string text) {
  return {.words = {std::move(word)}, .text = std::move(text)};
}
Found Number(double number, std::string text) {
  return {.numbers = {number}, .text = std::move(text)};
}

bool IsBlocked(const TensorPlan& row) {
  return row.integer && row.integer->granularity == Granularity::kPerBlock;
}

std::optional<std::vector<int64_t>> DimsOf(const TensorPlan& row, const PlannedModel& planned) {
  for (const TensorUse& use : row.uses) {
    const std::optional<Node> node = planned.NodeOf(use.node);
    if (!node || static_cast<size_t>(use.input) >= node->num_inputs()) continue;
    const graph::ValueInfo info =
        planned.model().InfoOf(node->input(static_cast<size_t>(use.input)));
    if (!info.has_shape) continue;
    std::vector<int64_t> dims;
    for (const graph::Dimension& dim : info.shape) dims.push_back(dim.value);
    return dims;
  }
  return std::nullopt;
}

std::optional<int64_t> AxisOf(const TensorPlan& row, const PlannedModel& planned) {
  if (!row.axis) return std::nullopt;
  const auto dims = DimsOf(row, planned);
  const int64_t rank = dims ? static_cast<int64_t>(dims->size()) : 0;
  return *row.axis < 0 ? *row.axis + rank : *row.axis;
}

Found ReadersOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  Found found;
  for (const TensorUse& use : row.uses) found.words.push_back(use.op_type);
  found.text = fmt::format("{} as reader", Join(found.words, ", "));
  return found;
}

Found ProducerOf(const TensorPlan& row, const PlannedModel& planned) {
  const std::optional<Node> producer = planned.model().Producer(row.value);
  if (!producer) return {};
  return Word(producer->op_type(), fmt::format("{} as producer", producer->op_type()));
}

Found SymmetryOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  if (!row.integer) return {};
  const bool is_symmetric = row.integer->is_symmetric;
  return Truth(is_symmetric, is_symmetric ? "codes without a zero point" : "a zero point");
}

Found AxesOf(const TensorPlan& row, const PlannedModel& planned) {
  const bool has_axis = row.integer && row.integer->granularity != Granularity::kPerTensor;
  const std::optional<int64_t> axis = has_axis ? AxisOf(row, planned) : std::nullopt;
  if (!axis) return {};
  return Number(static_cast<double>(*axis), fmt::format("scales along axis {}", *axis));
}

Found BlocksOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  if (!IsBlocked(row)) return {};
  return Number(static_cast<double>(row.integer->block_size),
                fmt::format("blocks of {}", row.integer->block_size));
}

// Blocks of an axis that is shorter than one are as long as the axis.
Found WholeBlocksOf(const TensorPlan& row, const PlannedModel& planned) {
  const int64_t block_size = IsBlocked(row) ? row.integer->block_size
                             : row.integer  ? 0
                                            : int64_t{row.Spec().block_size};
  const std::optional<int64_t> axis = block_size > 0 ? AxisOf(row, planned) : std::nullopt;
  const auto dims = DimsOf(row, planned);
  if (!axis || !dims || *axis < 0 || *axis >= static_cast<int64_t>(dims->size())) return {};
  const auto first = static_cast<size_t>(*axis);
  const int64_t length =
      row.flatten ? NumElements(std::span(*dims).subspan(first)) : (*dims)[first];
  if (length <= 0) return {};
  return Truth(length <= block_size || length % block_size == 0,
               fmt::format("blocks of {} along {} elements", block_size, length));
}

Found PowersOfTwoOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  const std::vector<formats::QParams> params = ParamsOf(row);
  if (params.empty() && (!row.integer || IsBlocked(row))) return {};
  const bool is_power = params.empty()
                            ? row.integer->scale_kind == formats::ScaleKind::kPowerOfTwo
                            : std::ranges::all_of(params, IsPowerOfTwo, &formats::QParams::scale);
  return Truth(is_power,
               is_power ? "scales that are powers of two" : "scales that are no powers of two");
}

Found ScalesOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  const std::vector<formats::QParams> params = ParamsOf(row);
  if (params.empty()) return {};
  Found found{.text = fmt::format("scale {}", params[0].scale)};
  for (const formats::QParams& one : params) found.numbers.push_back(one.scale);
  return found;
}

Found ZeroPointsOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  const std::vector<formats::QParams> params = ParamsOf(row);
  if (params.empty()) return {};
  Found found{.text = fmt::format("zero point {}", params[0].zero_point)};
  for (const formats::QParams& one : params) {
    found.numbers.push_back(static_cast<double>(one.zero_point));
  }
  return found;
}

Found RangeOf(const TensorPlan& row, const PlannedModel& /*planned*/) {
  const std::vector<formats::QParams> params = ParamsOf(row);
  if (params.empty()) return {};
  const formats::CodeRange codes = formats::IntegerRange(row.Spec().element_type);
  const double num_steps =
      static_cast<double>(codes.quant_max) - static_cast<double>(codes.quant_min);
  const float least = std::ranges::min(params, {}, &formats::QParams::scale).scale;
  return Number(least * num_steps, fmt::format("a range of {:.3g}", least * num_steps));
}

// Returns the formats of the activations that the readers of a row also read.
Found FormatsBeside(const TensorPlan& row, const PlannedModel& planned) {
  Found found;
  for (const TensorUse& use : row.uses) {
    const std::optional<Node> node = planned.NodeOf(use.node);
    for (size_t i = 0; node && i < node->num_inputs(); ++i) {
      const TensorPlan* const other = planned.RowAt(use.node, static_cast<int64_t>(i));
      if (other != nullptr && other->role == Role::kActivation) {
        found.words.push_back(other->format);
      }
    }
  }
  found.text = fmt::format("activations of {} beside it", Join(found.words, ", "));
  return found;
}

bool IsFunction(const Node& node, const graph::Model& model) {
  return model.HasFunction(node.domain(), node.op_type());
}

Found InputTypesOf(const Node& node, const PlannedModel& planned) {
  Found found;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i).empty()) continue;
    const DataType type = planned.model().InfoOf(node.input(i)).type;
    if (type == DataType::kUndefined) continue;
    found.words.push_back(fmt::format("{}:{}", i, ToLower(DataTypeName(type))));
  }
  found.text = fmt::format("inputs of types {}", Join(found.words, ", "));
  return found;
}

// Returns the attributes that are integers or strings, as "accuracy_level=4". Others have their
// name only.
Found AttributesOf(const Node& node, const PlannedModel& /*planned*/) {
  Found found{.words = {""}};
  for (const std::string& name : node.AttributeNames()) {
    std::string word = name;
    try {
      word = fmt::format("{}={}", name, node.GetInt(name, 0));
    } catch (const Error&) {
      try {
        word = fmt::format("{}={}", name, node.GetString(name, ""));
      } catch (const Error&) {
        word = name;
      }
    }
    found.words.push_back(word);
  }
  found.text = "attributes" + Join(found.words, " ");
  return found;
}

// Returns whether a sample is not alone behind one scale: the first dimension, the batch, is larger
// than 1, or not fixed.
Found MixedSamplesOf(const Node& node, const PlannedModel& planned) {
  if (node.num_inputs() == 0) return {};  // a Constant
  const graph::ValueInfo info = planned.model().InfoOf(node.input(0));
  if (!info.has_shape || info.shape.empty()) return {};
  return Truth(info.shape.front().value != 1, "one scale for all samples of its input");
}

bool IsDequantizer(const std::optional<Node>& node) {
  return node && node->op_type() == "DequantizeLinear";
}

// Returns whether ONNX Runtime makes a MatMulNBits, which computes from codes, of a product behind
// a DequantizeLinear: weights of 8 bits or less, with one scale or one for each channel, that are
// not transposed (measured with ONNX Runtime 1.31.1).
bool BecomesMatMulNBits(const Node& dequantizer, const Node& product, const graph::Model& model) {
  const graph::InitializerView codes = model.Initializer(dequantizer.input(0));
  if (!ops::TraitsOf(product).is_matrix_product() || product.GetInt("transB", 0) != 0) return false;
  if (ElementBits(codes.type) > 8) return false;
  if (NumElements(model.Initializer(dequantizer.input(1)).dims) == 1) return true;
  const auto rank = static_cast<int64_t>(codes.dims.size());
  const int64_t axis = dequantizer.GetInt("axis", 1);
  return ops::ChannelAxis(product, 1, rank) == (axis < 0 ? axis + rank : axis);
}

// Returns whether a DequantizeLinear of a constant feeds an operator that multiplies floats, so
// that ONNX Runtime neither computes with the codes nor drops the node.
Found DecodesForFloats(const Node& node, const PlannedModel& planned) {
  const graph::Model& model = planned.model();
  const bool is_of_constant = IsDequantizer(node) && node.num_inputs() > 1 &&
                              model.IsInitializer(node.input(0)) &&
                              model.IsInitializer(node.input(1));
  if (!is_of_constant || node.GetInt("block_size", 0) > 0) return Truth(false, "");
  for (const graph::Use& use : model.AllUses(node.output(0))) {
    const bool is_weight =
        ops::TraitsOf(use.node).product != ops::Product::kNone && use.input_index == 1;
    if (!is_weight || IsDequantizer(model.Producer(use.node.input(0))) ||
        BecomesMatMulNBits(node, use.node, model)) {
      continue;
    }
    return Truth(true,
                 fmt::format("the weight of {}, which is computed in float", use.node.Describe()));
  }
  return Truth(false, "");
}

Found DecodesByHand(const Node& node, const PlannedModel& planned) {
  const std::optional<ops::HandDecoder> decoder = ops::HandDecoderAt(planned.model(), node);
  if (!decoder) return Truth(false, "");
  return Truth(true, fmt::format("the codes '{}' of the weight of {}", decoder->codes,
                                 decoder->reader.node.Describe()));
}

// Returns whether a Mul is a HardSwish: one input is a HardSigmoid of the other. Q/DQ pairs may
// stand between them.
Found HardSwishOf(const Node& node, const PlannedModel& planned) {
  const auto without_pair = [&](std::string value) {
    for (int step = 0; step < 2; ++step) {
      const std::optional<Node> producer = planned.model().Producer(value);
      if (!producer || !(ops::IsQuantize(*producer) || ops::IsDequantize(*producer))) break;
      value = producer->input(0);
    }
    return value;
  };
  for (size_t i = 0; node.op_type() == "Mul" && i < node.num_inputs(); ++i) {
    const std::optional<Node> gate = planned.model().Producer(without_pair(node.input(i)));
    if (gate && gate->op_type() == "HardSigmoid" &&
        without_pair(gate->input(0)) == without_pair(node.input(1 - i))) {
      return Truth(true, "a HardSwish");
    }
  }
  return Truth(false, "");
}

Found NodeReadersOf(const Node& node, const PlannedModel& planned) {
  Found found{.words = {""}};
  for (const graph::Use& use : planned.model().AllUses(node.output(0))) {
    found.words.push_back(use.node.op_type());
  }
  found.text = "read by" + Join(found.words, " ");
  return found;
}

Found FixedInputsOf(const PlannedModel& planned) {
  for (const std::string& name : planned.model().InputNames()) {
    const graph::ValueInfo info = planned.model().InfoOf(name);
    if (!info.has_shape) return Truth(false, fmt::format("input '{}' has no known shape", name));
    for (const graph::Dimension& dim : info.shape) {
      if (dim.value >= 0) continue;
      return Truth(false, fmt::format("input '{}' has a size that is not fixed{}", name,
                                      dim.symbol.empty() ? "" : " (" + dim.symbol + ")"));
    }
  }
  return Truth(true, "all sizes of inputs are fixed");
}

Found OpsetOf(const PlannedModel& planned) {
  const std::map<std::string, int64_t> imports = planned.model().OpsetImports();
  const auto found = imports.find("");
  if (found == imports.end()) return {};
  return Number(static_cast<double>(found->second), fmt::format("opset {}", found->second));
}

using Kind = ArgumentKind;

constexpr ConditionRow kRows[] = {
    {.key = "roles",
     .kind = Kind::kWords,
     .meaning = "activation, weight or bias",
     .of_tensor = [](const TensorPlan& row, const PlannedModel&) -> Found {
       return Word(std::string(RoleName(row.role)), std::string(RoleName(row.role)));
     }},
    {.key = "op_types",
     .kind = Kind::kWords,
     .meaning = "types of the operators that read it",
     .of_tensor = ReadersOf},
    {.key = "producers",
     .kind = Kind::kWords,
     .meaning = "the type of the operator that computes it",
     .of_tensor = ProducerOf},
    {.key = "formats",
     .kind = Kind::kWords,
     .meaning = "its format, as plans spell it: int8, uint16, fp8_e4m3, mx6",
     .of_tensor = [](const TensorPlan& row, const PlannedModel&) -> Found {
       return Word(row.format, "format " + row.format);
     }},
    {.key = "activation_formats",
     .kind = Kind::kWords,
     .meaning = "the formats of the activations that its readers read beside it",
     .of_tensor = FormatsBeside},
    {.key = "granularities",
     .kind = Kind::kWords,
     .meaning = "per_tensor, per_axis or per_block",
     .of_tensor = [](const TensorPlan& row, const PlannedModel&) -> Found {
       if (!row.integer) return {};
       const std::string word(GranularityName(row.integer->granularity));
       return Word(word, word + " scales");
     }},
    {.key = "symmetric",
     .meaning = "its zero point is 0, or the middle of unsigned codes",
     .of_tensor = SymmetryOf},
    {.key = "dynamic",
     .meaning = "its scale is computed at run time",
     .of_tensor = [](const TensorPlan& row, const PlannedModel&) -> Found {
       return Truth(row.is_dynamic(),
                    row.is_dynamic() ? "a scale that is computed at run time" : "a constant scale");
     }},
    {.key = "scale_of_products",
     .meaning = "an int32 bias whose scale is that of input times weight",
     .of_tensor = [](const TensorPlan& row, const PlannedModel&) -> Found {
       return Truth(row.has_scale_of_products(), "a bias with the scale of its products");
     }},
    {.key = "axes",
     .kind = Kind::kNumbers,
     .meaning = "the axis of its scales or blocks, counted from 0",
     .of_tensor = AxesOf},
    {.key = "block_sizes",
     .kind = Kind::kNumbers,
     .meaning = "elements of a block",
     .of_tensor = BlocksOf},
    {.key = "block_multiple_of",
     .kind = Kind::kMultiple,
     .meaning = "elements of a block are a multiple of this number",
     .of_tensor = BlocksOf},
    {.key = kWholeBlocks,
     .meaning = "blocks divide their axis without a rest",
     .of_tensor = WholeBlocksOf},
    {.key = "power_of_two_scales",
     .meaning = "all its scales are powers of two",
     .of_tensor = PowersOfTwoOf},
    {.key = "scales", .kind = Kind::kNumbers, .meaning = "its scale", .of_tensor = ScalesOf},
    {.key = "zero_points",
     .kind = Kind::kNumbers,
     .meaning = "its zero point",
     .of_tensor = ZeroPointsOf},
    {.key = "range_at_least",
     .kind = Kind::kLeast,
     .meaning = "the distance between the values of its first and last code",
     .of_tensor = RangeOf},

    {.key = "op_types",
     .kind = Kind::kWords,
     .meaning = "the type of the operator",
     .of_node = [](const Node& node, const PlannedModel&) -> Found {
       return Word(node.op_type(), "operator " + node.op_type());
     }},
    {.key = "domains",
     .kind = Kind::kWords,
     .meaning = "the operator's domain; '' for ONNX's own",
     .of_node = [](const Node& node, const PlannedModel&) -> Found {
       return Word(node.domain(), "an operator of domain " + node.domain());
     }},
    {.key = "function",
     .meaning = "the model defines the operator as a function of others",
     .of_node = [](const Node& node, const PlannedModel& planned) -> Found {
       return Truth(IsFunction(node, planned.model()), "a function of the model");
     }},
    {.key = "web_kernel",
     .meaning = "onnxruntime-web has a kernel for it, or the model a function",
     .of_node = [](const Node& node, const PlannedModel& planned) -> Found {
       const bool is_there = IsFunction(node, planned.model()) || ops::IsInWeb(node);
       return Truth(is_there, "an operator that onnxruntime-web does not have");
     }},
    {.key = "products_from_codes",
     .meaning = "a product, convolution or lookup of our library that computes from packed codes",
     .of_node = [](const Node& node, const PlannedModel&) -> Found {
       return Truth(ops::ReadsCodes(node) && !ops::IsUnpack(node), "a product from packed codes");
     }},
    {.key = "input_types",
     .kind = Kind::kWords,
     .meaning = "number and type of an input: '3:float' is met by a node whose fourth input is "
                "FLOAT",
     .is_any = true,
     .of_node = InputTypesOf},
    {.key = "attributes",
     .kind = Kind::kWords,
     .meaning = "an attribute and its value: 'accuracy_level=4'",
     .is_any = true,
     .of_node = AttributesOf},
    {.key = "mixes_samples",
     .meaning = "its first input has more than one sample, or an open number of them",
     .of_node = MixedSamplesOf},
    {.key = "decodes_for_floats",
     .meaning = "a DequantizeLinear of a weight that is multiplied with floats",
     .of_node = DecodesForFloats},
    {.key = "decodes_by_hand",
     .meaning = "a Cast of whole numbers that a Mul makes the weight of a product",
     .of_node = DecodesByHand},
    {.key = "readers",
     .kind = Kind::kWords,
     .meaning = "types of the operators that read its first output",
     .is_any = true,
     .of_node = NodeReadersOf},
    {.key = "hard_swish",
     .meaning = "a Mul of a value and its HardSigmoid",
     .of_node = HardSwishOf},
    // The output is that of the activation function which alone reads the node's, if that is where
    // the quantizer stands.
    {.key = "shift",
     .kind = Kind::kRange,
     .meaning = "bits by which products with power-of-two scales are shifted to the output: "
                "log2(output / (input * weight)); of one input log2(output / input)",
     .of_node = ShiftOf,
     .adjusted = ShiftedBy},
    {.key = "bias_shift",
     .kind = Kind::kRange,
     .meaning = "bits by which a bias is shifted to the products: log2(bias / (input * weight))",
     .of_node = BiasShiftOf,
     .adjusted = BiasRaises},
    {.key = "bias_to_output",
     .kind = Kind::kRange,
     .meaning = "bits by which a bias is finer than the output: log2(output / bias)",
     .of_node = BiasToOutputOf,
     .adjusted = BiasLowers},
    {.key = "input_spread",
     .kind = Kind::kRange,
     .meaning = "bits by which the scales of its inputs differ: log2(largest / smallest)",
     .of_node = InputSpreadOf,
     .adjusted = FinestInputOf},
    {.key = "sum_shift",
     .kind = Kind::kRange,
     .meaning = "bits by which a sum is shifted to the output: log2(output / largest input)",
     .of_node = SumShiftOf,
     .adjusted = OutputRaises},
    {.key = "input_fraction_bits",
     .kind = Kind::kRange,
     .meaning = "bits behind the point of its first input: -log2(scale)",
     .of_node = InputFractionOf,
     .adjusted = FirstInputLowers},
    {.key = "output_fraction_bits",
     .kind = Kind::kRange,
     .meaning = "bits behind the point of its output: -log2(scale)",
     .of_node = OutputFractionOf,
     .adjusted = OutputLowers},

    {.key = "opset",
     .kind = Kind::kRange,
     .meaning = "the version of ONNX's operators",
     .of_model = OpsetOf},
    {.key = "fixed_inputs", .meaning = "all inputs have fixed sizes", .of_model = FixedInputsOf},
};

bool MatchesWord(std::string_view word, const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& pattern) {
    if (!pattern.ends_with('*')) return word == pattern;
    return word.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  });
}

// Scales are float32, and files have decimals.
bool IsNear(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

template <typename T, typename Predicate>
bool AnyOrAll(const std::vector<T>& found, bool all, Predicate&& fits) {
  return all ? std::ranges::all_of(found, fits) : std::ranges::any_of(found, fits);
}

}  // namespace

std::string_view ArgumentText(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTruth:
      return "true or false";
    case ArgumentKind::kWords:
      return "a list of words";
    case ArgumentKind::kNumbers:
      return "a list of numbers";
    case ArgumentKind::kRange:
      return "the least and the largest number";
    default:
      return "a number";
  }
}

PlannedModel::PlannedModel(const QuantPlan& plan, const graph::Model& model)
    : model_(model), index_(model) {
  for (const TensorPlan& row : plan.tensors) {
    if (!row.is_quantized()) continue;
    values_.emplace(row.value, &row);
    for (const TensorUse& use : row.uses) reads_.emplace(std::pair(use.node, use.input), &row);
  }
}

const TensorPlan* PlannedModel::RowAt(const std::string& node, int64_t input) const {
  const auto found = reads_.find({node, input});
  return found == reads_.end() ? nullptr : found->second;
}

const TensorPlan* PlannedModel::RowOfOutput(const Node& node) const {
  constexpr std::string_view kBehind[] = {"Relu", "Clip", "LeakyRelu", "PRelu"};
  // A graph output that is quantized has its name behind the pair.
  constexpr int kMostSteps = 3;
  std::string value = node.output(0);
  for (int step = 0; step <= kMostSteps; ++step) {
    const auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    const std::vector<graph::Use> uses = model_.AllUses(value);
    const bool is_followed = uses.size() == 1 && uses[0].input_index == 0 &&
                             (ops::IsQuantize(uses[0].node) || ops::IsDequantize(uses[0].node) ||
                              std::ranges::count(kBehind, uses[0].node.op_type()) != 0);
    if (!is_followed) break;
    value = uses[0].node.output(0);
  }
  return nullptr;
}

bool ConditionRow::IsAbout(Subject subject) const {
  if (subject == Subject::kTensor) return of_tensor != nullptr;
  return subject == Subject::kNode ? of_node != nullptr : of_model != nullptr;
}

std::span<const ConditionRow> ConditionRows() { return kRows; }

const ConditionRow& ConditionRowOf(Subject subject, std::string_view key) {
  std::vector<std::string> known;
  for (const ConditionRow& row : kRows) {
    if (!row.IsAbout(subject)) continue;
    if (row.key == key) return row;
    known.emplace_back(row.key);
  }
  Fail(ErrorCode::kInvalidArgument, "unknown condition '{}'{}; there are {}", key,
       DidYouMean(key, known), Join(known, ", "));
}

std::optional<bool> Meets(const Found& found, const Condition& condition, ArgumentKind kind,
                          bool all) {
  if (kind == ArgumentKind::kTruth) {
    return found.truth ? std::optional(*found.truth == condition.truth) : std::nullopt;
  }
  if (kind == ArgumentKind::kWords) {
    if (found.words.empty()) return std::nullopt;
    return AnyOrAll(found.words, all,
                    [&](const std::string& word) { return MatchesWord(word, condition.words); });
  }
  if (found.numbers.empty()) return std::nullopt;
  const std::vector<double>& wanted = condition.numbers;
  return AnyOrAll(found.numbers, all, [&](double number) {
    switch (kind) {
      case ArgumentKind::kRange:
        return number >= wanted[0] && number <= wanted[1];
      case ArgumentKind::kLeast:
        return number >= wanted[0];
      case ArgumentKind::kMultiple:
        return std::fmod(number, wanted[0]) == 0;
      default:
        return std::ranges::any_of(wanted, [&](double one) { return IsNear(number, one); });
    }
  });
}

}  // namespace bitpress::plan
