// The decisions that the quantizers inside a model hold: pairs of QuantizeLinear and
// DequantizeLinear, codes behind DequantizeLinear, MatMulNBits or QMoE, and our quantizers and
// packed weights of block formats.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "interop/decisions.h"
#include "interop/files.h"
#include "ops/expert_inputs.h"
#include "ops/hand_decoders.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::interop {
namespace {

using graph::Model;
using graph::Node;
using plan::Granularity;

constexpr std::string_view kQuantizers[] = {"QuantizeLinear", "ExtendedQuantizeLinear",
                                            "VitisQuantizeLinear", "DynamicQuantizeLinear"};
constexpr std::string_view kDequantizers[] = {"DequantizeLinear", "ExtendedDequantizeLinear",
                                              "VitisDequantizeLinear"};
constexpr int64_t kNumFirstValues = 256;
constexpr std::string_view kOurQuantizer = "QuantizeDequantize_";
constexpr std::string_view kOurPacked = "Unpack_";

bool IsOneOf(const Node& node, std::span<const std::string_view> names) {
  return std::ranges::find(names, node.op_type()) != names.end();
}

// Returns the name without an ending that quantizers give to codes.
std::string FloatNameOf(std::string name) {
  for (const std::string_view ending : {"_quantized", "_quant", "_Q4", "_Q8", "_Q2", "_codes"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

class ModelReader {
 public:
  explicit ModelReader(const Model& model) : model_(model), index_(model) { FindOutputs(); }

  Decisions Run() {
    for (const Node& node : model_.AllNodes()) {
      if (IsOneOf(node, kDequantizers)) ReadPair(node);
      if (node.op_type() == "MatMulNBits") ReadProduct(node);
      if (node.op_type() == "Cast") ReadHandMade(node);
      if (node.op_type() == ops::kQMoe && node.GetString("quant_type", "int") == "int") {
        ReadExperts(node);
      }
      if (node.op_type().starts_with(kOurQuantizer)) ReadOurs(node, kOurQuantizer, node.input(0));
      if (node.op_type().starts_with(kOurPacked)) ReadOurs(node, kOurPacked, "");
      if (node.op_type().starts_with("QLinear")) operators_on_codes_.insert(node.op_type());
    }
    AddFloatNodes();
    if (!operators_on_codes_.empty()) {
      decisions_.notes.push_back(
          fmt::format("parameters inside {} are not read: give the model "
                      "with QuantizeLinear and DequantizeLinear",
                      fmt::join(operators_on_codes_, ", ")));
    }
    return std::move(decisions_);
  }

 private:
  // Adds the operators that multiply by a float. Their inputs may be of integers.
  void AddFloatNodes() {
    std::set<std::string> quantized;
    for (const Decision& decision : decisions_.tensors) {
      for (const plan::TensorUse& use : decision.uses) {
        if (use.input == 1) quantized.insert(use.node);
      }
    }
    for (const Node& node : model_.AllNodes()) {
      const bool is_product = ops::TraitsOf(node).is_product() && node.num_inputs() > 1;
      if (!is_product || quantized.contains(index_.KeyOf(node))) continue;
      decisions_.float_nodes.push_back(
          {index_.KeyOf(node), node.op_type(), model_.IsInitializer(node.input(1))});
    }
  }

  // Finds the graph outputs that a quantizer gives. An output keeps its name when it is quantized,
  // and what the network computes for it gets another one.
  void FindOutputs() {
    for (const std::string& output : model_.OutputNames()) {
      const std::optional<std::string> value = ops::QuantizedFrom(model_, output);
      const bool is_renamed =
          value && !value->empty() && model_.Producer(*value) && !model_.IsOutput(*value);
      if (is_renamed) output_of_.emplace(*value, output);
    }
  }

  // Returns the name that a value in front of a quantizer has in the float network.
  std::string NameBeforeQuantizing(const std::string& value) const {
    const auto found = output_of_.find(value);
    return found == output_of_.end() ? value : found->second;
  }

  std::vector<plan::TensorUse> UsesOf(const std::string& value) const {
    std::vector<plan::TensorUse> uses;
    for (const graph::Use& use : model_.AllUses(value)) {
      uses.push_back(
          {index_.KeyOf(use.node), use.node.op_type(), static_cast<int64_t>(use.input_index)});
    }
    return uses;
  }

  // Adds a decision, or its uses to the one for the same tensor.
  void Add(Decision decision) {
    const auto [at, is_new] = of_value_.try_emplace(decision.value, decisions_.tensors.size());
    if (is_new) return decisions_.tensors.push_back(std::move(decision));
    std::vector<plan::TensorUse>& uses = decisions_.tensors[at->second].uses;
    uses.insert(uses.end(), decision.uses.begin(), decision.uses.end());
  }

  void ReadPair(const Node& node) {
    if (GivesScales(node)) return;
    const std::string codes = node.input(0);
    const std::optional<Node> quantizer = model_.Producer(codes);
    if (quantizer && !IsOneOf(*quantizer, kQuantizers)) return;
    if (!quantizer && !model_.IsInitializer(codes)) return;
    if (IsInsideHardSwish(node) || (quantizer && IsInsideHardSwish(*quantizer))) return;
    const std::string value = quantizer ? quantizer->input(0) : codes;
    Decision decision{.value = quantizer ? NameBeforeQuantizing(value) : FloatNameOf(codes),
                      .uses = UsesOf(node.output(0)),
                      .is_constant = !quantizer};
    if (quantizer && model_.IsInitializer(value)) decision.is_constant = true;
    const DataType type = ReadParams(node, decision);
    const std::string name = ToLower(DataTypeName(type));
    decision.format = name == "float8e4m3fn" ? "fp8_e4m3"
                      : name == "float8e5m2" ? "fp8_e5m2"
                                             : name;
    if (IntegerBitsOf(decision.format)) {
      if (decision.is_constant) decision.first_values = FirstValues(value, decision);
      return Add(std::move(decision));
    }
    if (RowOf(decision.format) == nullptr) {
      decisions_.notes.push_back(
          fmt::format("'{}': codes of type {} are no format here", decision.value, name));
      return;
    }
    decision.params.clear();
    decision.granularity = Granularity::kPerTensor;
    Add(std::move(decision));
  }

  // Reads scales and zero points of a DequantizeLinear, and returns the type of its codes.
  DataType ReadParams(const Node& node, Decision& decision) {
    const bool has_zeros = node.num_inputs() > 2 && !node.input(2).empty();
    const std::string& scale_name = node.input(1);
    const DataType type = model_.InfoOf(has_zeros ? node.input(2) : node.input(0)).type;
    decision.block_size = node.GetInt("block_size", 0);
    if (ReadMultiples(node, type, decision)) return type;
    if (!model_.IsInitializer(scale_name)) {
      decisions_.notes.push_back(fmt::format("'{}': its scale is no constant", decision.value));
      decision.is_dynamic = !decision.is_constant;
      return type;
    }
    const graph::InitializerView scales = model_.Initializer(scale_name);
    const bool is_one = NumElements(scales.dims) == 1 && scales.dims.size() < 2;
    const bool is_block = decision.block_size > 0;
    if (is_block || !is_one || scales.dims.size() == 1) decision.axis = node.GetInt("axis", 1);
    decision.granularity = is_block ? Granularity::kPerBlock
                           : is_one ? Granularity::kPerTensor
                                    : Granularity::kPerAxis;
    if (is_one && !is_block) decision.axis.reset();
    if (scales.type != DataType::kFloat) return type;
    const std::span<const float> values = scales.values<float>();
    std::vector<int64_t> zeros(values.size(), 0);
    if (has_zeros && model_.IsInitializer(node.input(2))) {
      const graph::InitializerView view = model_.Initializer(node.input(2));
      zeros = Integers(view, NumElements(view.dims));
    }
    if (zeros.size() != values.size() || zeros.empty()) return type;
    decision.is_symmetric = std::ranges::all_of(zeros, [&](int64_t z) { return z == zeros[0]; }) &&
                            IsMiddle(type, zeros[0]);
    for (size_t i = 0; i < values.size(); ++i) decision.params.push_back({values[i], zeros[i]});
    return type;
  }

  // Reads a weight that a Cast, a Sub and a Mul decode, with one scale or one for each channel.
  void ReadHandMade(const Node& cast) {
    const std::optional<ops::HandDecoder> decoder = ops::HandDecoderAt(model_, cast);
    if (!decoder) return;
    const graph::InitializerView codes = model_.Initializer(decoder->codes);
    const graph::InitializerView scales = model_.Initializer(decoder->scales);
    Decision decision{.value = FloatNameOf(decoder->codes),
                      .uses = UsesOf(decoder->weight),
                      .is_constant = true,
                      .format = ToLower(DataTypeName(codes.type))};
    const auto refuse = [&](std::string_view why) {
      decisions_.notes.push_back(fmt::format("'{}': {}", decision.value, why));
    };
    const int64_t num_scales = NumElements(scales.dims);
    if (scales.type != DataType::kFloat) return refuse("its scales are no FLOAT");
    std::vector<float> zeros(static_cast<size_t>(num_scales));
    if (!decoder->zero_points.empty()) {
      const graph::InitializerView view = model_.Initializer(decoder->zero_points);
      const bool is_one = NumElements(view.dims) == 1;
      if (view.type != DataType::kFloat || (!is_one && NumElements(view.dims) != num_scales)) {
        return refuse("its zero points are no FLOAT, or not one for each scale");
      }
      for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = view.values<float>()[is_one ? 0 : i];
    }
    if (num_scales > 1) {
      // The dimension of the scales that is not 1 is that of the channels.
      const auto longest = std::ranges::max_element(scales.dims);
      const auto from_end = scales.dims.end() - longest;
      const auto axis = static_cast<int64_t>(codes.dims.size()) - from_end;
      if (*longest != num_scales || axis < 0 ||
          codes.dims[static_cast<size_t>(axis)] != num_scales) {
        return refuse("its scales are not those of channels");
      }
      decision.granularity = Granularity::kPerAxis;
      decision.axis = axis;
    }
    for (size_t i = 0; i < zeros.size(); ++i) {
      decision.params.push_back({scales.values<float>()[i], std::lround(zeros[i])});
      decision.is_symmetric =
          decision.is_symmetric && IsMiddle(codes.type, decision.params.back().zero_point);
    }
    decision.first_values = FirstValues(decoder->codes, decision);
    Add(std::move(decision));
  }

  // Returns whether a node is a part of a HardSwish on codes (emit/hard_swish_on_codes.h), which
  // has a Concat of one input, rather than a quantizer of the network.
  bool IsInsideHardSwish(const Node& node) const {
    const auto is_alone = [](const std::optional<Node>& concat) {
      return concat && concat->op_type() == "Concat" && concat->num_inputs() == 1;
    };
    const std::optional<graph::Use> use = model_.OnlyUse(node.output(0));
    return is_alone(model_.Producer(node.input(0))) || (use && is_alone(use->node));
  }

  // Returns whether what a DequantizeLinear gives are scales of another one.
  bool GivesScales(const Node& node) const {
    const std::vector<graph::Use> uses = model_.AllUses(node.output(0));
    return !uses.empty() && std::ranges::all_of(uses, [](const graph::Use& use) {
      return use.input_index == 1 && use.node.op_type() == "DequantizeLinear";
    });
  }

  // Reads scales that are themselves integers behind a DequantizeLinear with one for each channel,
  // as LPBQ has them. Returns whether they are.
  bool ReadMultiples(const Node& dequantizer, DataType type, Decision& decision) const {
    const std::optional<Node> node = model_.Producer(dequantizer.input(1));
    if (!node || node->op_type() != "DequantizeLinear" || node->HasAttribute("block_size") ||
        !IntegerBitsOf(ToLower(DataTypeName(type))) || !model_.IsInitializer(node->input(0)) ||
        !model_.IsInitializer(node->input(1))) {
      return false;
    }
    const graph::InitializerView codes = model_.Initializer(node->input(0));
    const graph::InitializerView channels = model_.Initializer(node->input(1));
    if (!IntegerBitsOf(ToLower(DataTypeName(codes.type))) || channels.type != DataType::kFloat) {
      return false;
    }
    const auto rank = static_cast<int64_t>(codes.dims.size());
    const auto axis_of = [&](const Node& reader) {
      const int64_t axis = reader.GetInt("axis", 1);
      return axis < 0 ? axis + rank : axis;
    };
    const int64_t axis = axis_of(*node), block_axis = axis_of(dequantizer);
    if (std::min(axis, block_axis) < 0 || std::max(axis, block_axis) >= rank ||
        axis == block_axis || NumElements(codes.dims) == 0 || decision.block_size < 1 ||
        codes.dims[static_cast<size_t>(axis)] != NumElements(channels.dims)) {
      return false;
    }
    decision.granularity = Granularity::kPerBlock;
    decision.axis = block_axis;
    decision.scale_kind = formats::ScaleKind::kLpbq;
    const std::span<const float> values = channels.values<float>();
    decision.multiples = {.channels = {values.begin(), values.end()},
                          .channel_axis = axis,
                          .dims = {codes.dims.begin(), codes.dims.end()},
                          .values = Integers(codes, NumElements(codes.dims))};
    decision.params = ParamsOfMultiples(*decision.multiples);
    return true;
  }

  // Returns the first values of a constant of floats, or of codes with scales.
  std::vector<Decision::FirstValue> FirstValues(const std::string& constant,
                                                const Decision& decision) const {
    const graph::InitializerView view = model_.Initializer(constant);
    const bool is_float = view.type == DataType::kFloat;
    const std::optional<IntegerBits> type = IntegerBitsOf(ToLower(DataTypeName(view.type)));
    const bool has_blocks = decision.granularity == Granularity::kPerBlock;
    if (decision.params.empty() || has_blocks || (!is_float && !type)) return {};
    size_t stride = 1;  // elements of a channel that follow each other
    if (decision.granularity == Granularity::kPerAxis) {
      const auto rank = static_cast<int64_t>(view.dims.size());
      const int64_t axis = *decision.axis < 0 ? *decision.axis + rank : *decision.axis;
      if (axis < 0 || axis >= rank) return {};
      for (auto i = static_cast<size_t>(axis) + 1; i < view.dims.size(); ++i) {
        stride *= static_cast<size_t>(view.dims[i]);
      }
    }
    const int64_t num = std::min(NumElements(view.dims), kNumFirstValues);
    const std::vector<int64_t> codes = is_float ? std::vector<int64_t>() : Integers(view, num);
    std::vector<Decision::FirstValue> values;
    for (size_t i = 0; i < static_cast<size_t>(num); ++i) {
      const formats::QParams& params = decision.params[i / stride % decision.params.size()];
      if (is_float) {
        values.push_back({view.values<float>()[i], params.scale});
        continue;
      }
      const int64_t half = int64_t{1} << (type->bits - 1);
      const int64_t from_least = codes[i] + (type->is_signed ? half : 0);
      const bool is_end = from_least <= 1 || from_least == 2 * half - 1;  // -127, too
      values.push_back({params.scale * static_cast<float>(codes[i] - params.zero_point),
                        is_end ? std::numeric_limits<float>::infinity() : params.scale});
    }
    return values;
  }

  static bool IsMiddle(DataType type, int64_t zero_point) {
    const std::optional<IntegerBits> bits = IntegerBitsOf(ToLower(DataTypeName(type)));
    return bits && zero_point == bits->middle();
  }

  // Returns the first elements of a tensor of 4 to 32 bits. Others have none.
  static std::vector<int64_t> Integers(const graph::InitializerView& view, int64_t num) {
    const auto bits = static_cast<size_t>(ElementBits(view.type));
    const std::optional<IntegerBits> type = IntegerBitsOf(ToLower(DataTypeName(view.type)));
    std::vector<int64_t> values;
    if (!type) return values;
    for (size_t i = 0; i < static_cast<size_t>(num); ++i) {
      uint64_t raw = 0;
      for (size_t bit = 0; bit < bits; ++bit) {
        const size_t at = i * bits + bit;
        const auto byte = std::to_integer<uint64_t>(view.bytes[at / 8]);
        raw |= (byte >> (at % 8) & 1U) << bit;
      }
      const bool is_negative = type->is_signed && (raw >> (bits - 1)) != 0;
      values.push_back(static_cast<int64_t>(raw) - (is_negative ? int64_t{1} << bits : 0));
    }
    return values;
  }

  void ReadProduct(const Node& node) {
    const bool has_zeros = node.num_inputs() > 3 && !node.input(3).empty();
    // Codes of 3 bits are widened in front of it.
    const std::optional<Node> widener = ops::WidenerOf(model_, node.input(1));
    const bool is_widened = widener && widener->num_inputs() > 0;
    Decision decision{.value = FloatNameOf(is_widened ? widener->input(0) : node.input(1)),
                      .uses = {{FloatNameOf(std::string(node.name())), "MatMul", 1}},
                      .is_constant = true,
                      .format = IntegerName(is_widened ? 3 : node.GetInt("bits", 4), !has_zeros),
                      .granularity = Granularity::kPerBlock,
                      .block_size = node.GetInt("block_size", 32),
                      .is_symmetric = !has_zeros};
    Add(std::move(decision));
  }

  // Reads the weights of a QMoE as those of the MoE that it stands for.
  void ReadExperts(const Node& node) {
    for (size_t number = 0; number < ops::kNumExpertWeights; ++number) {
      const ops::ExpertInputs& inputs = ops::InputsOfQMoe(number);
      const std::string codes = ops::InputOrNone(node, inputs.weight);
      if (codes.empty()) continue;
      const bool has_zeros = !ops::InputOrNone(node, inputs.zero_points).empty();
      const int64_t bits = ops::ExpertBits(node, number);
      const int64_t block_size = node.GetInt("block_size", 0);
      Add({.value = FloatNameOf(codes),
           .uses = {{index_.KeyOf(node), "MoE",
                     static_cast<int64_t>(ops::InputsOfMoe(number).weight)}},
           .is_constant = true,
           .format = IntegerName(bits, !has_zeros),
           .granularity = block_size > 0 ? Granularity::kPerBlock : Granularity::kPerAxis,
           .block_size = block_size,
           .is_symmetric = !has_zeros});
    }
  }

  // Reads a node of ours whose name holds the format.
  void ReadOurs(const Node& node, std::string_view prefix, const std::string& value) {
    const std::string format(node.op_type().substr(prefix.size()));
    const formats::FormatSpec* const row = RowOf(format);
    if (row == nullptr || row->is_integer()) {
      decisions_.notes.push_back(fmt::format("{} '{}': the sizes of its blocks are not read",
                                             node.op_type(), node.name()));
      return;
    }
    const bool is_packed = value.empty();
    Decision decision{
        .value = is_packed ? FloatNameOf(node.output(0)) : NameBeforeQuantizing(value),
        .uses = UsesOf(node.output(0)),
        .is_constant = is_packed || model_.IsInitializer(value),
        .format = format};
    if (node.HasAttribute("axis")) decision.axis = node.GetInt("axis", -1);
    Add(std::move(decision));
  }

  const Model& model_;
  const plan::NodeIndex index_;
  Decisions decisions_;
  std::map<std::string, size_t> of_value_;
  std::map<std::string, std::string> output_of_;  // graph outputs by what is quantized for them
  std::set<std::string, std::less<>> operators_on_codes_;
};

}  // namespace

Decisions DecisionsOf(const Model& model) { return ModelReader(model).Run(); }

}  // namespace bitpress::interop
