#include "weights/convolution_nodes.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace bitpress::weights {
namespace {

using graph::Model;
using graph::Node;
using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;
using Reference = graph::AttributeReference;

constexpr const char* kDomain = "bitpress";
constexpr const char* kQuantizerPrefix = "QuantizeDequantize_";
constexpr const char* kLists[] = {"strides", "pads", "dilations"};
constexpr const char* kWords[] = {"scale_choice", "rounding_mode"};
constexpr const char* kLimits[] = {"least", "largest"};

Reference ReferenceTo(const char* name, Reference::Type type) { return {name, type}; }

// Returns the function of a convolution: the nodes of the Unpack function, the input's quantizer,
// and the convolution. (It does not call the Unpack function: ONNX Runtime lets no FP8 codes
// through to a function in a function.)
graph::FunctionSpec FunctionOf(graph::FunctionSpec unpack, const std::string& name,
                               const std::string& quantizer, bool has_other) {
  graph::FunctionSpec function = std::move(unpack);
  function.name = name;
  function.doc =
      "A convolution with a weight stored in blocks, of an input that is quantized along its "
      "channels, plus a bias" +
      std::string(has_other ? " and another tensor" : "") +
      ", limited to [least, largest]. `scale_choice` and `rounding_mode` are the quantizer's. " +
      function.doc;
  function.inputs.insert(function.inputs.begin(), "x");
  function.inputs.push_back("bias");
  if (has_other) function.inputs.push_back("z");
  const std::string weight = function.outputs.front();
  function.outputs = {"y"};
  Attributes words{{"axis", int64_t{1}}}, convolution;
  for (const char* const word : kWords) {
    function.attributes.push_back(word);
    words.emplace_back(word, ReferenceTo(word, Reference::Type::kString));
  }
  for (const char* const list : kLists) {
    function.attributes.push_back(list);
    convolution.emplace_back(list, ReferenceTo(list, Reference::Type::kInts));
  }
  function.attributes.push_back("group");
  convolution.emplace_back("group", ReferenceTo("group", Reference::Type::kInt));
  function.nodes.push_back({"", quantizer, kDomain, {"x"}, {"x_quantized"}, words});
  function.nodes.push_back(
      {"", "Conv", "", {"x_quantized", weight, "bias"}, {"sums"}, convolution});
  if (has_other) function.nodes.push_back({"", "Add", "", {"sums", "z"}, {"sums_and_z"}, {}});
  for (const char* const limit : kLimits) {
    function.attributes.push_back(limit);
    function.nodes.push_back({"",
                              "Constant",
                              "",
                              {},
                              {limit},
                              {{"value_float", ReferenceTo(limit, Reference::Type::kFloat)}}});
  }
  function.nodes.push_back(
      {"", "Clip", "", {has_other ? "sums_and_z" : "sums", "least", "largest"}, {"y"}, {}});
  return function;
}

// Returns the operator's name.
std::string NameOf(const PackedStorage& storage, std::string_view quantizer, bool has_other) {
  quantizer.remove_prefix(std::string_view(kQuantizerPrefix).size());
  return fmt::format("{}{}{}{}", has_other ? kConvolutionAddPrefix : kConvolutionPrefix,
                     DecoderOf(storage), kInputInfix, quantizer);
}

}  // namespace

void InsertConvolution(Model& model, const PackedConvolution& convolution, const Node& before) {
  PackedStorage storage = StorageOf(model, convolution.weight);
  const std::string quantizer = convolution.quantizer.op_type();
  const bool has_other = !convolution.other.empty();
  const std::string op_type = NameOf(storage, quantizer, has_other);
  if (!model.HasFunction(kDomain, op_type)) {
    model.SetFunction(FunctionOf(std::move(storage.function), op_type, quantizer, has_other));
  }
  graph::NodeSpec spec{
      convolution.name,     op_type,           kDomain, {convolution.quantizer.input(0)},
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
  for (const char* const word : kWords) {
    spec.attributes.emplace_back(word, convolution.quantizer.GetString(word, ""));
  }
  spec.attributes.emplace_back("least", convolution.least);
  spec.attributes.emplace_back("largest", convolution.largest);
  model.InsertNode(spec, before);
}

void ExpandConvolution(Model& model, Node node, WeightValues& weights) {
  const PackedReader reader = *PackedReaderOf(node);
  const PackedWeight weight = *PackedWeightOf(model, node);
  const PackedStorage storage = StorageOf(model, weight);
  const bool has_other = node.num_inputs() - reader.parts_end > 1;
  const size_t infix = node.op_type().find(kInputInfix);
  const std::string quantizer =
      infix == std::string::npos
          ? ""
          : kQuantizerPrefix + node.op_type().substr(infix + std::strlen(kInputInfix));
  if (weight.shape.size() < 3 || quantizer.empty() ||
      NameOf(storage, quantizer, has_other) != node.op_type()) {
    Fail(ErrorCode::kInvalidModel, "{}: it is no convolution as bitpress writes them",
         node.Describe());
  }
  const std::string value = weights.ValueOf(node, storage);
  const std::string input = node.input(0), bias = node.input(reader.parts_end);
  const std::string other = has_other ? node.input(reader.parts_end + 1) : "";
  const std::string output = node.output(0);
  const float least = node.GetFloat("least", 0), largest = node.GetFloat("largest", 0);
  const bool is_limited = std::isfinite(least) || std::isfinite(largest);
  node.set_output(0, model.FreshName(output + "_replaced"));
  const std::string quantized = model.FreshName(output + "_input_quantized");
  Attributes words{{"axis", int64_t{1}}}, lists{{"group", node.GetInt("group", 1)}};
  for (const char* const word : kWords) words.emplace_back(word, node.GetString(word, ""));
  for (const char* const list : kLists) lists.emplace_back(list, node.GetInts(list));
  model.InsertNode({quantized, quantizer, kDomain, {input}, {quantized}, words}, node);
  const std::string sums = has_other || is_limited ? model.FreshName(output + "_sums") : output;
  model.InsertNode({node.name(), "Conv", "", {quantized, value, bias}, {sums}, lists}, node);
  std::string last = sums;
  if (has_other) {
    last = is_limited ? model.FreshName(output + "_added") : output;
    model.InsertNode({output + "_add", "Add", "", {sums, other}, {last}, {}}, node);
  }
  if (is_limited) {
    graph::NodeSpec clip{output + "_clip", "Clip", "", {last}, {output}, {}};
    for (const float limit : {least, largest}) {
      std::string name;
      if (std::isfinite(limit)) {
        name = model.FreshName(output + (limit == least ? "_least" : "_largest"));
        std::vector<std::byte> bytes(sizeof(limit));
        std::memcpy(bytes.data(), &limit, sizeof(limit));
        model.SetInitializer(name, {DataType::kFloat, {}, std::move(bytes)});
      }
      clip.inputs.push_back(name);
    }
    model.InsertNode(clip, node);
  }
  model.RemoveNode(node);
}

}  // namespace bitpress::weights
