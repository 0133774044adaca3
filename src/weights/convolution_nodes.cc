#include "weights/convolution_nodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/parameters.h"
#include "graph/own_domain.h"
#include "plan/quantizer_spelling.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;
using graph::Model;
using graph::Node;
using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;
using Reference = graph::AttributeReference;

constexpr const char* kLists[] = {"strides", "pads", "dilations"};
constexpr const char* kWords[] = {"scale_choice", "rounding_mode"};

Reference ReferenceTo(const char* name, Reference::Type type) { return {name, type}; }

// Operators differ in these.
struct Kind {
  FormatSpec weight, input;
  bool has_other = false;  // adds Z
  bool has_slope = false;  // ends in a LeakyRelu

  const char* prefix() const { return has_other ? kConvolutionAddPrefix : kConvolutionPrefix; }
  // Returns whether a number stands for the formats in the operator's name.
  bool is_numbered() const {
    return has_slope || formats::HasParameters(weight) || formats::HasParameters(input) ||
           weight.block_size != input.block_size;
  }
};

Kind KindOf(const PackedConvolution& convolution) {
  return {convolution.weight.spec, convolution.input, !convolution.other.empty(),
          convolution.slope.has_value()};
}

// Returns the function of a convolution: the nodes of the Unpack function, the input's quantizer,
// and the convolution. (It does not call the Unpack function: ONNX Runtime lets no FP8 codes
// through to a function in a function.)
graph::FunctionSpec FunctionOf(graph::FunctionSpec unpack, const std::string& name,
                               const plan::QuantizerSpelling& quantizer, const Kind& kind) {
  graph::FunctionSpec function = std::move(unpack);
  function.name = name;
  function.doc =
      "A convolution with a packed weight, of an input that is quantized along its channels, plus "
      "a bias" +
      std::string(kind.has_other ? " and another tensor" : "") +
      (kind.has_slope ? ", negative sums times `slope`" : ", limited to [least, largest]") +
      (kind.input.is_blocked() ? ". `scale_choice` and `rounding_mode` are the quantizer's. "
                               : ". `rounding_mode` is the quantizer's. ") +
      (kind.is_numbered() ? "`format` is that of the weight, `input_format` that of the input. "
                          : "") +
      function.doc;
  function.inputs.insert(function.inputs.begin(), "x");
  function.inputs.push_back("bias");
  if (kind.has_other) function.inputs.push_back("z");
  const std::string weight = function.outputs.front();
  function.outputs = {"y"};
  if (kind.is_numbered()) {
    function.attributes.insert(function.attributes.end(),
                               {kFormatAttribute, kInputFormatAttribute});
  }
  Attributes of_quantizer = quantizer.attributes, convolution;
  for (auto& [word, value] : of_quantizer) {
    if (std::ranges::find(kWords, word) == std::end(kWords)) continue;
    function.attributes.push_back(word);
    value = ReferenceTo(word.c_str(), Reference::Type::kString);
  }
  for (const char* const list : kLists) {
    function.attributes.push_back(list);
    convolution.emplace_back(list, ReferenceTo(list, Reference::Type::kInts));
  }
  function.attributes.push_back("group");
  convolution.emplace_back("group", ReferenceTo("group", Reference::Type::kInt));
  function.nodes.push_back(
      {"", quantizer.op_type, graph::kOwnDomain, {"x"}, {"x_quantized"}, of_quantizer});
  function.nodes.push_back(
      {"", "Conv", "", {"x_quantized", weight, "bias"}, {"sums"}, convolution});
  if (kind.has_other) {
    function.nodes.push_back({"", "Add", "", {"sums", "z"}, {"sums_and_z"}, {}});
  }
  const std::string sums = kind.has_other ? "sums_and_z" : "sums";
  if (kind.has_slope) {
    function.attributes.push_back(kSlopeAttribute);
    function.nodes.push_back({"",
                              "LeakyRelu",
                              "",
                              {sums},
                              {"y"},
                              {{"alpha", ReferenceTo(kSlopeAttribute, Reference::Type::kFloat)}}});
  } else {
    AddLimits(function, sums);
  }
  return function;
}

// Returns the operator's name; nothing if all numbers are taken.
std::optional<std::string> NameOf(const Model& model, const PackedStorage& storage,
                                  const Kind& kind) {
  if (!kind.is_numbered()) {
    return fmt::format("{}{}{}{}", kind.prefix(), DecoderOf(storage), kInputInfix, kind.input.name);
  }
  return NumberedName(model, kind.prefix(), storage,
                      {kind.weight.name, kind.input.name, kind.has_slope});
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
  if (input.is_blocked()) {
    input.scale_choice = formats::ParseScaleChoice(node.GetString("scale_choice", ""));
  }
  input.rounding = formats::ParseRoundingMode(node.GetString("rounding_mode", ""));
  return input;
}

// Inserts the quantizer of its input, the Conv, and what follows in the place of a node that does
// all of it. `value`: the decoded weight. `bias_input`: the first input behind the parts of the
// weight.
void InsertExpanded(Model& model, const Node& node, const Kind& kind, const std::string& value,
                    size_t bias_input) {
  const std::string &input = node.input(0), &bias = node.input(bias_input);
  const std::string other = kind.has_other ? node.input(bias_input + 1) : "";
  const std::string& output = node.output(0);
  const plan::QuantizerSpelling quantizer = QuantizerOf(kind.input);
  const float least = node.GetFloat("least", 0), largest = node.GetFloat("largest", 0);
  const bool is_limited = !kind.has_slope && (std::isfinite(least) || std::isfinite(largest));
  const bool has_end = is_limited || kind.has_slope;
  const std::string quantized = model.FreshName(output + "_input_quantized");
  Attributes lists{{"group", node.GetInt("group", 1)}};
  for (const char* const list : kLists) lists.emplace_back(list, node.GetInts(list));
  model.InsertNode({model.FreshNodeName(quantized),
                    quantizer.op_type,
                    graph::kOwnDomain,
                    {input},
                    {quantized},
                    quantizer.attributes},
                   node);
  const std::string sums = kind.has_other || has_end ? model.FreshName(output + "_sums") : output;
  model.InsertNode({node.name(), "Conv", "", {quantized, value, bias}, {sums}, lists}, node);
  std::string last = sums;
  if (kind.has_other) {
    last = has_end ? model.FreshName(output + "_added") : output;
    model.InsertNode({model.FreshNodeName(output + "_add"), "Add", "", {sums, other}, {last}, {}},
                     node);
  }
  if (is_limited) InsertLimits(model, last, output, least, largest, node);
  if (kind.has_slope) {
    const float slope = node.GetFloat(kSlopeAttribute, 1);
    model.InsertNode({model.FreshNodeName(output + "_leaky_relu"),
                      "LeakyRelu",
                      "",
                      {last},
                      {output},
                      {{"alpha", slope}}},
                     node);
  }
}

}  // namespace

std::string WhyNoConvolutionName(const Model& model, const PackedWeight& weight,
                                 const FormatSpec& input) {
  for (const bool has_other : {false, true}) {
    const Kind kind{weight.spec, input, has_other};
    if (!kind.is_numbered()) return "";
    const auto name = NameOf(model, StorageOf(model, weight), kind);
    if (std::string why = WhyNoNumber(weight.spec, name); !why.empty()) return why;
  }
  return "";
}

bool HasConvolutionName(const Model& model, const PackedConvolution& convolution) {
  const PackedStorage storage = StorageOf(model, convolution.weight);
  return NameOf(model, storage, KindOf(convolution)).has_value();
}

void InsertConvolution(Model& model, const PackedConvolution& convolution, const Node& before) {
  PackedStorage storage = StorageOf(model, convolution.weight);
  const Kind kind = KindOf(convolution);
  const std::string op_type = *NameOf(model, storage, kind);
  if (!model.HasFunction(graph::kOwnDomain, op_type)) {
    model.SetFunction(
        FunctionOf(std::move(storage.function), op_type, QuantizerOf(kind.input), kind));
  }
  graph::NodeSpec spec{convolution.name,     op_type,           graph::kOwnDomain, {convolution.x},
                       {convolution.output}, storage.attributes};
  for (size_t i = 0; i < convolution.unpack.num_inputs(); ++i) {
    spec.inputs.push_back(convolution.unpack.input(i));
  }
  spec.inputs.push_back(convolution.bias);
  if (kind.has_other) spec.inputs.push_back(convolution.other);
  spec.attributes.emplace_back("strides", convolution.strides);
  spec.attributes.emplace_back("pads", convolution.pads);
  spec.attributes.emplace_back("dilations", convolution.dilations);
  spec.attributes.emplace_back("group", convolution.group);
  for (const auto& [word, value] : QuantizerOf(kind.input).attributes) {
    const bool is_ours = std::ranges::find(kWords, word) != std::end(kWords);
    if (is_ours) spec.attributes.emplace_back(word, value);
  }
  if (convolution.slope) {
    spec.attributes.emplace_back(kSlopeAttribute, *convolution.slope);
  } else {
    spec.attributes.emplace_back("least", convolution.least);
    spec.attributes.emplace_back("largest", convolution.largest);
  }
  if (kind.is_numbered()) {
    spec.attributes.emplace_back(kFormatAttribute, kind.weight.name);
    spec.attributes.emplace_back(kInputFormatAttribute, kind.input.name);
  }
  model.InsertNode(spec, before);
}

void ExpandConvolution(Model& model, const Node& node, WeightValues& weights) {
  const PackedReader reader = *PackedReaderOf(node);
  const PackedWeight weight = *PackedWeightOf(model, node);
  const PackedStorage storage = StorageOf(model, weight);
  const Kind kind{weight.spec, WithContext(node.Describe(), [&] { return InputOf(node); }),
                  node.num_inputs() - reader.parts_end > 1, node.HasAttribute(kSlopeAttribute)};
  const bool has_name = kind.is_numbered() ? HasNumberedName(node, kind.prefix(), weight.spec)
                                           : NameOf(model, storage, kind) == node.op_type();
  if (weight.shape.size() < 3 || !has_name || kind.input.is_blocked() != weight.spec.is_blocked()) {
    Fail(ErrorCode::kInvalidModel, "{}: it is no convolution as bitpress writes them",
         node.Describe());
  }
  const std::string value = weights.ValueOf(node, storage);
  model.Replace({node}, [&] { InsertExpanded(model, node, kind, value, reader.parts_end); });
}

}  // namespace bitpress::weights
