#include "weights/convolution_nodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/parameters.h"
#include "plan/quantizer_spelling.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;
using graph::Model;
using graph::Node;
using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;
using Reference = graph::AttributeReference;

constexpr const char* kDomain = "bitpress";
constexpr const char* kLists[] = {"strides", "pads", "dilations"};
constexpr const char* kWords[] = {"scale_choice", "rounding_mode"};

Reference ReferenceTo(const char* name, Reference::Type type) { return {name, type}; }

// Returns the function of a convolution: the nodes of the Unpack function, the input's quantizer,
// and the convolution. (It does not call the Unpack function: ONNX Runtime lets no FP8 codes
// through to a function in a function.)
graph::FunctionSpec FunctionOf(graph::FunctionSpec unpack, const std::string& name,
                               const plan::QuantizerSpelling& quantizer, bool is_numbered,
                               bool has_other) {
  graph::FunctionSpec function = std::move(unpack);
  function.name = name;
  function.doc =
      "A convolution with a weight stored in blocks, of an input that is quantized along its "
      "channels, plus a bias" +
      std::string(has_other ? " and another tensor" : "") +
      ", limited to [least, largest]. `scale_choice` and `rounding_mode` are the quantizer's. " +
      std::string(is_numbered ? "`format` is that of the weight, `input_format` that of the input. "
                              : "") +
      function.doc;
  function.inputs.insert(function.inputs.begin(), "x");
  function.inputs.push_back("bias");
  if (has_other) function.inputs.push_back("z");
  const std::string weight = function.outputs.front();
  function.outputs = {"y"};
  if (is_numbered) {
    function.attributes.insert(function.attributes.end(),
                               {kFormatAttribute, kInputFormatAttribute});
  }
  Attributes of_quantizer = quantizer.attributes, convolution;
  for (const char* const word : kWords) {
    function.attributes.push_back(word);
    std::ranges::find(of_quantizer, word, &Attributes::value_type::first)->second =
        ReferenceTo(word, Reference::Type::kString);
  }
  for (const char* const list : kLists) {
    function.attributes.push_back(list);
    convolution.emplace_back(list, ReferenceTo(list, Reference::Type::kInts));
  }
  function.attributes.push_back("group");
  convolution.emplace_back("group", ReferenceTo("group", Reference::Type::kInt));
  function.nodes.push_back({"", quantizer.op_type, kDomain, {"x"}, {"x_quantized"}, of_quantizer});
  function.nodes.push_back(
      {"", "Conv", "", {"x_quantized", weight, "bias"}, {"sums"}, convolution});
  if (has_other) function.nodes.push_back({"", "Add", "", {"sums", "z"}, {"sums_and_z"}, {}});
  AddLimits(function, has_other ? "sums_and_z" : "sums");
  return function;
}

const char* PrefixOf(bool has_other) {
  return has_other ? kConvolutionAddPrefix : kConvolutionPrefix;
}

// Returns whether the name of the operator says both formats.
bool IsNamed(const FormatSpec& weight, const FormatSpec& input) {
  return !formats::HasParameters(weight) && !formats::HasParameters(input) &&
         weight.block_size == input.block_size;
}

// Returns the operator's name; nothing if all numbers are taken.
std::optional<std::string> NameOf(const Model& model, const PackedStorage& storage,
                                  const FormatSpec& weight, const FormatSpec& input,
                                  bool has_other) {
  if (IsNamed(weight, input)) {
    return fmt::format("{}{}{}{}", PrefixOf(has_other), DecoderOf(storage), kInputInfix,
                       input.name);
  }
  return NumberedName(model, PrefixOf(has_other), storage, weight.name, input.name);
}

plan::QuantizerSpelling QuantizerOf(const FormatSpec& input) {
  return plan::SpellQuantizer(plan::OperatorSet::kBitpress, input, 1);
}

// Returns the format of a node's input. Throws Error(kInvalidArgument) if the node says none.
FormatSpec InputOf(const Node& node) {
  const size_t infix = node.op_type().find(kInputInfix);
  FormatSpec input = formats::FindFormat(
      infix == std::string::npos ? node.GetString(kInputFormatAttribute, "")
                                 : node.op_type().substr(infix + std::strlen(kInputInfix)));
  input.scale_choice = formats::ParseScaleChoice(node.GetString("scale_choice", ""));
  input.rounding = formats::ParseRoundingMode(node.GetString("rounding_mode", ""));
  return input;
}

}  // namespace

std::string WhyNoConvolutionName(const Model& model, const PackedWeight& weight,
                                 const FormatSpec& input) {
  if (IsNamed(weight.spec, input)) return "";
  for (const bool has_other : {false, true}) {
    const auto name = NameOf(model, StorageOf(model, weight), weight.spec, input, has_other);
    if (std::string why = WhyNoNumber(weight.spec, name); !why.empty()) return why;
  }
  return "";
}

void InsertConvolution(Model& model, const PackedConvolution& convolution, const Node& before) {
  PackedStorage storage = StorageOf(model, convolution.weight);
  const FormatSpec &format = convolution.weight.spec, &input = convolution.input;
  const bool has_other = !convolution.other.empty();
  const bool is_numbered = !IsNamed(format, input);
  const std::string op_type = *NameOf(model, storage, format, input, has_other);
  if (!model.HasFunction(kDomain, op_type)) {
    model.SetFunction(FunctionOf(std::move(storage.function), op_type, QuantizerOf(input),
                                 is_numbered, has_other));
  }
  graph::NodeSpec spec{convolution.name,     op_type,           kDomain, {convolution.x},
                       {convolution.output}, storage.attributes};
  for (size_t i = 0; i < convolution.unpack.num_inputs(); ++i) {
    spec.inputs.push_back(convolution.unpack.input(i));
  }
  spec.inputs.push_back(convolution.bias);
  if (has_other) spec.inputs.push_back(convolution.other);
  spec.attributes.emplace_back("strides", convolution.strides);
  spec.attributes.emplace_back("pads", convolution.pads);
  spec.attributes.emplace_back("dilations", convolution.dilations);
  spec.attributes.emplace_back("group", convolution.group);
  for (const auto& [word, value] : QuantizerOf(input).attributes) {
    const bool is_ours = std::ranges::find(kWords, word) != std::end(kWords);
    if (is_ours) spec.attributes.emplace_back(word, value);
  }
  spec.attributes.emplace_back("least", convolution.least);
  spec.attributes.emplace_back("largest", convolution.largest);
  if (is_numbered) {
    spec.attributes.emplace_back(kFormatAttribute, format.name);
    spec.attributes.emplace_back(kInputFormatAttribute, input.name);
  }
  model.InsertNode(spec, before);
}

void ExpandConvolution(Model& model, Node node, WeightValues& weights) {
  const PackedReader reader = *PackedReaderOf(node);
  const PackedWeight weight = *PackedWeightOf(model, node);
  const PackedStorage storage = StorageOf(model, weight);
  const bool has_other = node.num_inputs() - reader.parts_end > 1;
  const FormatSpec input_format = WithContext(node.Describe(), [&] { return InputOf(node); });
  const bool is_numbered = !IsNamed(weight.spec, input_format);
  const bool has_name =
      is_numbered ? HasNumberedName(node, PrefixOf(has_other), weight.spec)
                  : NameOf(model, storage, weight.spec, input_format, has_other) == node.op_type();
  if (weight.shape.size() < 3 || !input_format.is_blocked() || !has_name) {
    Fail(ErrorCode::kInvalidModel, "{}: it is no convolution as bitpress writes them",
         node.Describe());
  }
  const plan::QuantizerSpelling quantizer = QuantizerOf(input_format);
  const std::string value = weights.ValueOf(node, storage);
  const std::string input = node.input(0), bias = node.input(reader.parts_end);
  const std::string other = has_other ? node.input(reader.parts_end + 1) : "";
  const std::string output = node.output(0);
  const float least = node.GetFloat("least", 0), largest = node.GetFloat("largest", 0);
  const bool is_limited = std::isfinite(least) || std::isfinite(largest);
  node.set_output(0, model.FreshName(output + "_replaced"));
  const std::string quantized = model.FreshName(output + "_input_quantized");
  Attributes lists{{"group", node.GetInt("group", 1)}};
  for (const char* const list : kLists) lists.emplace_back(list, node.GetInts(list));
  model.InsertNode(
      {quantized, quantizer.op_type, kDomain, {input}, {quantized}, quantizer.attributes}, node);
  const std::string sums = has_other || is_limited ? model.FreshName(output + "_sums") : output;
  model.InsertNode({node.name(), "Conv", "", {quantized, value, bias}, {sums}, lists}, node);
  std::string last = sums;
  if (has_other) {
    last = is_limited ? model.FreshName(output + "_added") : output;
    model.InsertNode({output + "_add", "Add", "", {sums, other}, {last}, {}}, node);
  }
  if (is_limited) InsertLimits(model, last, output, least, largest, node);
  model.RemoveNode(node);
}

}  // namespace bitpress::weights
