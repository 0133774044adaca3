#include "emit/portable_functions.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "emit/function_body.h"
#include "emit/portable_numerics.h"
#include "formats/parameters.h"
#include "graph/own_domain.h"

namespace bitpress::emit {
namespace {

using formats::FormatSpec;
using Omission = PortableFunctions::Omission;

constexpr std::string_view kPrefix = "QuantizeDequantize_";

// The names of shapes that view any tensor as [outer, length, inner] around the axis, and cut that
// into blocks.
struct BlockDims {
  std::string shape;        // dimensions of the input
  std::string length;       // length of the axis
  std::string padding;      // added to the length for whole blocks
  std::string tensor_dims;  // [outer, length, inner]
  std::string padded_dims;  // [outer, padded length, inner]
  std::string flat_dims;    // [blocks, block_size, inner]
  std::string blocks_dims;  // the same, or with the sub-blocks as a dimension of their own
};

// Returns a dimension in a form of which ONNX Runtime does not infer the rank, unless it is a
// constant. It then infers no shape of tensors with this dimension among others. To each shape
// whose sizes it does not know, its planner of memory would look for an equal one among all that it
// has in the model, and find none: the time to load models with inputs of unknown sizes would be
// quadratic in the number of their quantizers. The sum over an axis that is no constant could be of
// any rank.
std::string WithUnknownRank(FunctionBody& body, const std::string& dim) {
  const std::string first = body.Add("Mul", "first_axis", {dim, body.Integers({0})});
  return body.Add("ReduceSum", "dimension_of_unknown_rank", {dim, first},
                  {{"keepdims", int64_t{1}}});
}

BlockDims AddBlockDims(FunctionBody& body, const FormatSpec& spec, const std::string& x) {
  BlockDims dims;
  // 1. Count the axis from the front, as a vector of one element.
  dims.shape = body.Add("Shape", "shape", {x});
  const std::string rank = body.Add("Shape", "rank", {dims.shape});
  const std::string axis = body.IntegerAttribute("axis");
  const std::string is_negative = body.Add("Less", "axis_is_negative", {axis, body.Integers({0})});
  const std::string from_end = body.Add("Add", "axis_from_end", {axis, rank});
  const std::string begin = body.Add("Where", "axis_begin", {is_negative, from_end, axis});
  const std::string end = body.Add("Add", "axis_end", {begin, body.Integers({1})});
  // 2. Multiply dimensions; the product of none is 1.
  const auto product = [&](const std::string& name, const std::string& first,
                           const std::string& last) {
    const std::string part = body.Add("Slice", name + "_dims", {dims.shape, first, last});
    return body.Add("ReduceProd", name, {part}, {{"keepdims", int64_t{1}}});
  };
  const std::string outer = product("outer", body.Integers({0}), begin);
  dims.length = product("length", begin, end);
  const std::string inner = WithUnknownRank(body, product("inner", end, rank));
  // 3. Make whole blocks.
  const std::string block_size = body.Integers({spec.block_size});
  const std::string up_to_whole =
      body.Add("Add", "length_and_rest", {dims.length, body.Integers({spec.block_size - 1})});
  const std::string blocks_per_line = body.Add("Div", "blocks_per_line", {up_to_whole, block_size});
  const std::string padded = body.Add("Mul", "padded_length", {blocks_per_line, block_size});
  dims.padding = body.Add("Sub", "padding", {padded, dims.length});
  const std::string num_blocks = body.Add("Mul", "num_blocks", {outer, blocks_per_line});
  const auto concat = [&](const char* name, std::vector<std::string> parts) {
    return body.Add("Concat", name, std::move(parts), {{"axis", int64_t{0}}});
  };
  dims.tensor_dims = concat("tensor_dims", {outer, dims.length, inner});
  dims.padded_dims = concat("padded_dims", {outer, padded, inner});
  dims.flat_dims = concat("flat_dims", {num_blocks, block_size, inner});
  dims.blocks_dims = dims.flat_dims;
  if (spec.sub_block_size > 0) {
    const std::string within =
        body.Integers({spec.block_size / spec.sub_block_size, spec.sub_block_size});
    dims.blocks_dims = concat("blocks_dims", {num_blocks, within, inner});
  }
  return dims;
}

// Returns `values` in a form whose shape ONNX Runtime infers to be that of `like`. ONNX Runtime
// does not see that by itself. The model would have unknown shapes behind every quantizer, and the
// time to load it would be quadratic in their number. PRelu has the shape of its first input
// whatever the shape of the slope. Applied to -1 it gives minus the slope.
std::string WithShapeOf(FunctionBody& body, const std::string& like, const std::string& values) {
  const std::string minus_one = body.Scalar(-1.0);
  const std::string minus_ones = body.Add("Clip", "minus_ones", {like, minus_one, minus_one});
  const std::string slope = body.Add("Neg", "minus_values", {values});
  return body.Add("PRelu", "values_of_known_shape", {minus_ones, slope});
}

std::string AddBlocked(FunctionBody& body, const FormatSpec& spec, const std::string& x) {
  const BlockDims dims = AddBlockDims(body, spec, x);
  const std::string tensor = body.Reshape("tensor", x, dims.tensor_dims);
  const std::string pads =
      body.Add("Concat", "pads", {body.Integers({0, 0, 0, 0}), dims.padding, body.Integers({0})},
               {{"axis", int64_t{0}}});
  const std::string padded = body.Add("Pad", "padded", {tensor, pads});
  const std::string blocks = body.Reshape("blocks", padded, dims.blocks_dims);
  const std::string quantized = QuantizeBlocks(body, spec, blocks, dims.flat_dims);
  const std::string lines = body.Reshape("quantized_padded", quantized, dims.padded_dims);
  const std::string cut = body.Add("Slice", "quantized_tensor",
                                   {lines, body.Integers({0}), dims.length, body.Integers({1})});
  return WithShapeOf(body, x, body.Reshape("quantized_as_input", cut, dims.shape));
}

size_t NumberRank(const FormatSpec& spec) {
  if (!spec.is_blocked()) return 0;
  return spec.sub_block_size > 0 ? 4 : 3;
}

std::string Describe(const FormatSpec& spec) {
  std::string text = spec.name;
  if (spec.is_blocked()) {
    text += fmt::format(" scale_choice={}", formats::ScaleChoiceName(spec.scale_choice));
  }
  return text + fmt::format(" rounding_mode={}", formats::RoundingModeName(spec.rounding));
}

bool IsOurQuantizer(const graph::Node& node) {
  return node.domain() == graph::kOwnDomain && node.op_type().starts_with(kPrefix);
}

// Returns our quantizers by operator, including those in bodies of control flow.
std::map<std::string, std::vector<graph::Node>> QuantizersOf(const graph::Model& model) {
  std::map<std::string, std::vector<graph::Node>> by_operator;
  for (const graph::Node& node : model.AllNodes()) {
    if (IsOurQuantizer(node)) by_operator[node.op_type()].push_back(node);
  }
  return by_operator;
}

// Returns the format that all the nodes share. Throws Error(kUnsupported) with the reason if one
// function cannot stand for all of them.
FormatSpec CommonSpec(const graph::Model& model, const std::vector<graph::Node>& nodes,
                      int64_t opset) {
  if (opset < kFirstPortableOpset) {
    Fail(ErrorCode::kUnsupported, "the model's operator set {} is older than {}", opset,
         kFirstPortableOpset);
  }
  std::optional<FormatSpec> common;
  for (const graph::Node& node : nodes) {
    const FormatSpec spec = WithContext(node.Describe(), [&] { return FormatOfQuantizer(node); });
    if (common && *common != spec) {
      Fail(ErrorCode::kUnsupported, "its nodes differ: {} computes {}, {} computes {}",
           nodes.front().Describe(), Describe(*common), node.Describe(), Describe(spec));
    }
    common = spec;
    if (spec.is_blocked() && !node.HasAttribute("axis")) {
      Fail(ErrorCode::kUnsupported, "{} has no attribute axis", node.Describe());
    }
    if (opset < kFirstPortableHalfOpset && node.num_inputs() > 0 &&
        model.InfoOf(node.input(0)).type == DataType::kFloat16) {
      Fail(ErrorCode::kUnsupported,
           "{} reads float16, for which the model's operator set {} is older than {}",
           node.Describe(), opset, kFirstPortableHalfOpset);
    }
  }
  return *common;
}

}  // namespace

FormatSpec FormatOfQuantizer(const graph::Node& node) {
  const std::string format = node.op_type().substr(kPrefix.size());
  FormatSpec spec =
      formats::ParametersOf(format).empty()
          ? formats::FindFormat(format)
          : formats::MakeFormat(format, [&](const formats::FormatParameter& parameter) {
              return node.GetInt(std::string(parameter.attribute), parameter.fallback);
            });
  if (spec.is_integer()) {
    Fail(ErrorCode::kUnsupported, "format {} has no such operator", spec.name);
  }
  const std::string rounding(formats::RoundingModeName(spec.rounding));
  spec.rounding = formats::ParseRoundingMode(node.GetString("rounding_mode", rounding));
  if (spec.is_blocked()) {
    const std::string choice(formats::ScaleChoiceName(spec.scale_choice));
    spec.scale_choice = formats::ParseScaleChoice(node.GetString("scale_choice", choice));
  }
  formats::Validate(spec);
  return spec;
}

graph::FunctionSpec PortableFunction(const FormatSpec& spec, std::string_view op_type,
                                     int64_t opset) {
  FunctionBody body(opset, NumberRank(spec));
  const bool takes_half = opset >= kFirstPortableHalfOpset;
  std::string x = "x";
  if (takes_half) {
    x = body.Add("Cast", "x_float", {x}, {{"to", static_cast<int64_t>(DataType::kFloat)}});
  }
  const std::string quantized =
      spec.is_blocked() ? AddBlocked(body, spec, x) : QuantizeElements(body, spec, x);
  body.Add(takes_half ? "CastLike" : "Identity", "y",
           takes_half ? std::vector<std::string>{quantized, "x"} : std::vector{quantized});

  graph::FunctionSpec function;
  function.domain = graph::kOwnDomain;
  function.name = std::string(op_type);
  function.doc = fmt::format(
      "x quantized to {} and dequantized, bit for bit as Bitpress's operator does, which takes the "
      "place of this function where its library is loaded.",
      Describe(spec));
  function.inputs = {"x"};
  function.outputs = {"y"};
  if (spec.is_blocked()) function.attributes = {"axis"};
  function.nodes = body.TakeNodes();
  return function;
}

PortableFunctions AddPortableFunctions(graph::Model& model) {
  PortableFunctions result;
  const std::map<std::string, int64_t> imports = model.OpsetImports();
  const auto standard = imports.find("");
  const int64_t opset = standard == imports.end() ? 0 : standard->second;
  for (const auto& [op_type, nodes] : QuantizersOf(model)) {
    const bool has_one = model.HasFunction(graph::kOwnDomain, op_type);
    try {
      const FormatSpec spec = CommonSpec(model, nodes, opset);
      model.SetFunction(PortableFunction(spec, op_type, opset));
      result.op_types.push_back(op_type);
      if (!has_one) result.is_changed = true;
    } catch (const Error& error) {
      result.omissions.push_back({op_type, error.what()});
      if (model.RemoveFunction(graph::kOwnDomain, op_type)) result.is_changed = true;
    }
  }
  return result;
}

}  // namespace bitpress::emit
