#include "transform/unpack_functions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"

namespace bitpress::transform {
namespace {

using formats::FormatSpec;
using graph::AttributeReference;

constexpr const char* kPrefix = "Unpack_";
constexpr const char* kPaddedSuffix = "_padded";

template <typename T>
Tensor MakeTensor(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor tensor{type, std::move(dims), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

Tensor Int64s(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return MakeTensor(DataType::kInt64, {count}, values);
}

Tensor Int32s(const std::vector<int32_t>& values) {
  return MakeTensor(DataType::kInt32, {static_cast<int64_t>(values.size())}, values);
}

// The body of a function, node by node. Every step gives the name of its value.
class Body {
 public:
  explicit Body(graph::FunctionSpec& function) : function_(function) {}

  std::string Add(std::string op_type, std::vector<std::string> inputs, std::string output,
                  std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    function_.nodes.push_back(
        {output, std::move(op_type), "", std::move(inputs), {output}, std::move(attributes)});
    return output;
  }
  std::string Constant(std::string name, Tensor value) {
    return Add("Constant", {}, std::move(name), {{"value", std::move(value)}});
  }
  std::string FromAttribute(const std::string& name) {
    return Add("Constant", {}, name,
               {{"value_ints", AttributeReference{name, AttributeReference::Type::kInts}}});
  }
  std::string Cast(std::string input, DataType type, std::string output) {
    return Add("Cast", {std::move(input)}, std::move(output), {{"to", static_cast<int64_t>(type)}});
  }

  // What `table` says for each code of `input`, packed as formats/pack.h says, as one row of
  // values; the last ones may be padding. `table` has an entry for each code.
  std::string Decode(const std::string& input, int bits, const std::vector<float>& table,
                     const std::string& what) {
    const formats::PackGroup group = formats::PackGroupOf(bits);
    const std::string bytes = Cast(input, DataType::kInt32, what + "_bytes");
    // The codes within one byte, by one lookup.
    std::vector<float> by_byte;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (size_t i = 0; i < group.codes_per_byte; ++i) {
        const uint32_t code = byte >> (i * static_cast<size_t>(bits));
        by_byte.push_back(table[code & ((1U << static_cast<unsigned>(bits)) - 1)]);
      }
    }
    std::vector<int64_t> dims{256};
    if (group.codes_per_byte > 1) dims.push_back(static_cast<int64_t>(group.codes_per_byte));
    const std::string values = Add(
        "Gather", {Constant(what + "_of_byte", MakeTensor(DataType::kFloat, dims, by_byte)), bytes},
        what + "_within_bytes");
    if (group.spare_bits == 0) return values;
    return AddSpare(bytes, values, bits, group, table, what);
  }

  std::string Scalar(const std::string& name, int64_t value) {
    return Constant(name, MakeTensor<int64_t>(DataType::kInt64, {}, {value}));
  }

 private:
  // The codes made of the spare high bits of a group's bytes, behind those within the bytes.
  std::string AddSpare(const std::string& bytes, const std::string& values, int bits,
                       const formats::PackGroup& group, const std::vector<float>& table,
                       const std::string& what) {
    std::vector<int32_t> weights;
    for (size_t i = 0; i < group.num_bytes; ++i)
      weights.push_back(1 << (group.spare_bits * static_cast<int>(i)));
    std::vector<int32_t> steps;
    for (size_t i = group.num_bytes * group.codes_per_byte; i < group.num_codes; ++i) {
      steps.push_back(1 << (bits * static_cast<int>(steps.size())));
    }
    const std::string spare =
        Add("Div", {bytes, Constant(what + "_spare_unit", Int32s({1 << (8 - group.spare_bits)}))},
            what + "_spare_bits");
    const std::string weighted =
        Add("Mul", {spare, Constant(what + "_spare_weights", Int32s(weights))},
            what + "_spare_weighted");
    const std::string stream =
        Add("ReduceSum", {weighted, Constant(what + "_last_axis", Int64s({-1}))},
            what + "_spare_stream", {{"keepdims", int64_t{1}}});
    const std::string shifted = Add("Div", {stream, Constant(what + "_spare_steps", Int32s(steps))},
                                    what + "_spare_shifted");
    const std::string codes =
        Add("Mod", {shifted, Constant(what + "_num_codes", Int32s({1 << bits}))},
            what + "_spare_codes");
    const auto num_codes = static_cast<int64_t>(table.size());
    const std::string others =
        Add("Gather",
            {Constant(what + "_of_code", MakeTensor(DataType::kFloat, {num_codes}, table)), codes},
            what + "_of_spare_bits");
    const std::string rows =
        Add("Reshape", {values, Constant(what + "_rows_shape", Int64s({0, -1}))}, what + "_rows");
    return Add("Concat", {rows, others}, what + "_groups", {{"axis", int64_t{1}}});
  }

  graph::FunctionSpec& function_;
};

// "mxfp6_e2m3"; of bfp(bits=13, block=32): "bfp_bits13_block32".
std::string WordOf(const FormatSpec& spec) {
  if (!spec.name.starts_with("bfp(")) return spec.name;
  std::string word =
      fmt::format("bfp_bits{}_block{}", spec.exponent_bits + spec.element_bits, spec.block_size);
  if (spec.exponent_bits != 8) word += fmt::format("_exponent{}", spec.exponent_bits);
  return word;
}

// The format of a function's name without prefix and suffix. Throws as FindFormat.
FormatSpec FormatOfWord(const std::string& word) {
  int bits = 0, block = 0, exponent = 8;
  const int found =
      std::sscanf(word.c_str(), "bfp_bits%d_block%d_exponent%d", &bits, &block, &exponent);
  if (found < 2) return formats::FindFormat(word);
  FormatSpec spec = formats::FindFormat(
      fmt::format("bfp(bits={}, block={}, exponent_bits={})", bits, block, exponent));
  if (WordOf(spec) != word) Fail(ErrorCode::kInvalidArgument, "'{}' is no format", word);
  return spec;
}

DataType CodeType(const FormatSpec& spec, int64_t opset) {
  if (HasFloat8Codes(spec)) {
    return opset >= kFirstFloat8Opset ? spec.onnx_type : DataType::kUInt8;
  }
  return spec.onnx_type == DataType::kInt8 ? DataType::kInt8 : DataType::kUInt8;
}

// The initializer of a plane of packed codes; groups with spare bits are its rows.
PackedStorage::Part PlanePart(std::string suffix, int bits, size_t num_bytes) {
  const formats::PackGroup group = formats::PackGroupOf(bits);
  PackedStorage::Part part{std::move(suffix), DataType::kUInt8, {}};
  const auto row = static_cast<int64_t>(group.spare_bits == 0 ? 1 : group.num_bytes);
  part.dims = {static_cast<int64_t>(num_bytes) / row};
  if (row > 1) part.dims.push_back(row);
  return part;
}

// Blocks as equal parts of the axis that do not cross a block's end, so that a product with one
// scale each is a broadcast: [outer, parts, length, inner].
std::vector<int64_t> Blocks(const FormatSpec& spec, const BlockView& view) {
  int64_t length = std::gcd(int64_t{spec.block_size}, view.axis);
  if (view.axis <= spec.block_size) length = view.axis;
  if (spec.sub_block_size > 0) length = std::gcd(length, int64_t{spec.sub_block_size});
  return {view.outer, view.axis / length, length, view.inner};
}

std::vector<float> ShiftTable(int bits) {
  std::vector<float> table;
  for (int shift = 0; shift < 1 << bits; ++shift) table.push_back(std::ldexp(1.0F, -shift));
  return table;
}

// Element values in the units of formats::ElementTable, flat or in the weight's shape.
std::string AddElements(Body& body, const FormatSpec& spec, int64_t opset) {
  const int bits = formats::CodePlaneBits(spec);
  if (bits == 8 && CodeType(spec, opset) != DataType::kUInt8) {
    return body.Cast("codes", DataType::kFloat, "elements");
  }
  return body.Decode("codes", bits, formats::ElementTable(spec), "elements");
}

// Cuts the padding off, where there is any, and brings the values into `shape`.
std::string AddShape(Body& body, std::string values, const std::string& shape, bool is_padded,
                     const std::string& name) {
  if (is_padded) {
    const std::string count =
        body.Add("ReduceProd", {shape}, name + "_count", {{"keepdims", int64_t{1}}});
    const std::string flat =
        body.Add("Reshape", {std::move(values), body.Constant(name + "_flat_shape", Int64s({-1}))},
                 name + "_and_padding");
    values = body.Add("Slice", {flat, body.Constant(name + "_begin", Int64s({0})), count},
                      name + "_flat");
  }
  return body.Add("Reshape", {std::move(values), shape}, name + "_in_blocks");
}

// The low bits of wide codes count away from zero.
std::string AddLowCodes(Body& body, const FormatSpec& spec, std::string elements, bool is_padded) {
  const int bits = formats::LowCodePlaneBits(spec);
  std::vector<float> numbers;
  for (int code = 0; code < 1 << bits; ++code) numbers.push_back(static_cast<float>(code));
  const std::string low =
      AddShape(body, body.Decode("low_codes", bits, numbers, "low"), "blocks", is_padded, "low");
  std::vector<float> signs(256, 1.0F);
  std::fill(signs.begin() + 128, signs.end(), -1.0F);
  const std::string sign =
      AddShape(body, body.Decode("codes", 8, signs, "sign"), "blocks", false, "sign");
  return body.Add("Add", {std::move(elements), body.Add("Mul", {sign, low}, "signed_low")},
                  "whole_elements");
}

// One factor for each part of Blocks: [outer, parts, 1, inner].
std::string AddScales(Body& body, const FormatSpec& spec) {
  const auto table = formats::ScaleTable(spec);
  const std::string scale_of_byte = body.Constant(
      "scale_of_byte",
      MakeTensor(DataType::kFloat, {256}, std::vector<float>(table.begin(), table.end())));
  const std::string scale = body.Add(
      "Gather", {scale_of_byte, body.Cast("scales", DataType::kInt32, "scale_bytes")}, "scale");
  const std::string zero = body.Scalar("zero", 0);
  const std::string one = body.Scalar("one", 1);
  const std::string parts = body.Add("Gather", {"blocks", one}, "num_parts");
  const std::string length = body.Add("Gather", {"blocks", body.Scalar("two", 2)}, "part_length");
  const std::string begin =
      body.Add("Mul", {body.Add("Range", {zero, parts, one}, "part"), length}, "part_begin");
  const auto per_part = [&](const std::string& values, int size, const std::string& name) {
    const std::string index =
        body.Add("Div", {begin, body.Scalar(name + "_size", size)}, name + "_of_part");
    return body.Add("Gather", {values, index}, name + "_scale", {{"axis", int64_t{1}}});
  };
  std::string result = per_part(scale, spec.block_size, "block");
  if (spec.sub_block_size > 0 && spec.sub_block_shift_bits > 0) {
    const int bits = spec.sub_block_shift_bits;
    const std::string sub_block = body.Scalar("sub_block", spec.sub_block_size);
    const std::string axis = body.Add("Mul", {parts, length}, "axis_length");
    const std::string rounded_up = body.Add(
        "Add", {axis, body.Scalar("round_up", spec.sub_block_size - 1)}, "axis_length_rounded_up");
    const std::string num_sub_blocks = body.Add("Div", {rounded_up, sub_block}, "num_sub_blocks");
    const std::string at_zero = body.Constant("at_zero", Int64s({0}));
    const auto as_list = [&](const std::string& scalar) {
      return body.Add("Unsqueeze", {scalar, at_zero}, scalar + "_list");
    };
    const std::string outer = body.Add("Gather", {"blocks", zero}, "num_outer");
    const std::string inner = body.Add("Gather", {"blocks", body.Scalar("three", 3)}, "num_inner");
    const std::string shape =
        body.Add("Concat", {as_list(outer), as_list(num_sub_blocks), as_list(inner)}, "shift_shape",
                 {{"axis", int64_t{0}}});
    // Shifts are few: their padding is always cut off.
    const std::string factors = AddShape(
        body, body.Decode("shifts", bits, ShiftTable(bits), "shift"), shape, true, "shift");
    result = body.Add("Mul", {result, per_part(factors, spec.sub_block_size, "sub_block")},
                      "part_scale");
  }
  return body.Add("Unsqueeze", {result, body.Constant("behind_parts", Int64s({2}))},
                  "scale_in_blocks");
}

void AddPlainBody(Body& body, const FormatSpec& spec, DataType type) {
  if (type == DataType::kUInt8) {
    const std::string values = body.Decode("codes", 8, formats::ElementTable(spec), "elements");
    body.Add("Identity", {values}, "weight");
  } else {
    body.Cast("codes", DataType::kFloat, "weight");
  }
}

[[noreturn]] void FailNotOurs(std::string_view what) {
  Fail(ErrorCode::kInvalidModel, "it does not decode a weight as bitpress stores them: {}", what);
}

// Bytes of the initializers that a node reads. Which part is which follows from the format alone.
formats::PackedSizes FoundSizes(const graph::Model& model, const graph::Node& node,
                                const FormatSpec& spec) {
  formats::PackedSizes sizes;
  std::vector<size_t*> parts{&sizes.codes};
  if (formats::LowCodePlaneBits(spec) > 0) parts.push_back(&sizes.low_codes);
  if (spec.is_blocked()) parts.push_back(&sizes.scales);
  if (spec.sub_block_size > 0 && spec.sub_block_shift_bits > 0) parts.push_back(&sizes.shifts);
  if (node.num_inputs() != parts.size()) {
    FailNotOurs(fmt::format("it has {} inputs, expected {}", node.num_inputs(), parts.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!model.IsInitializer(node.input(i))) {
      FailNotOurs(fmt::format("its input '{}' is not in the model", node.input(i)));
    }
    *parts[i] = model.Initializer(node.input(i)).bytes.size();
  }
  return sizes;
}

}  // namespace

bool HasFloat8Codes(const FormatSpec& spec) {
  return spec.onnx_type == DataType::kFloat8E4M3FN || spec.onnx_type == DataType::kFloat8E5M2;
}

PackedStorage StoragePacked(const FormatSpec& spec, std::span<const int64_t> shape,
                            const BlockView& view, int64_t opset) {
  const formats::PackedSizes sizes = formats::SizesOf(spec, view.outer, view.axis, view.inner);
  PackedStorage storage;
  graph::FunctionSpec& function = storage.function;
  function.domain = "bitpress";
  function.name = kPrefix + WordOf(spec);
  function.outputs = {"weight"};
  Body body(function);

  if (!spec.is_blocked()) {
    const DataType type = spec.element_bits == 16 ? spec.onnx_type : CodeType(spec, opset);
    storage.parts.push_back({"codes", type, {shape.begin(), shape.end()}});
    function.doc = fmt::format("The float values of a weight stored as {}.", spec.name);
    AddPlainBody(body, spec, type);
  } else {
    const int bits = formats::CodePlaneBits(spec);
    const int low_bits = formats::LowCodePlaneBits(spec);
    const auto count = static_cast<size_t>(NumElements(shape));
    const bool is_padded = count % formats::PackGroupOf(bits).num_codes != 0 ||
                           (low_bits > 0 && count % formats::PackGroupOf(low_bits).num_codes != 0);
    if (is_padded) function.name += kPaddedSuffix;
    if (bits == 8) {
      storage.parts.push_back({"codes", CodeType(spec, opset), {shape.begin(), shape.end()}});
    } else {
      storage.parts.push_back(PlanePart("codes", bits, sizes.codes));
    }
    if (low_bits > 0) storage.parts.push_back(PlanePart("low_codes", low_bits, sizes.low_codes));
    const int64_t num_blocks = static_cast<int64_t>(sizes.scales) / (view.outer * view.inner);
    storage.parts.push_back({"scales", DataType::kUInt8, {view.outer, num_blocks, view.inner}});
    if (sizes.shifts > 0) {
      storage.parts.push_back(PlanePart("shifts", spec.sub_block_shift_bits, sizes.shifts));
    }
    storage.attributes = {{"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                          {"blocks", Blocks(spec, view)}};
    function.attributes = {"shape", "blocks"};
    function.doc = fmt::format(
        "The float values of a weight stored as {}: the value of each code times the power of two "
        "that its block of {} shares. `blocks` is [outer, parts, length, inner]: the shape with "
        "the blocked axis cut into equal parts, none of which crosses the end of a block.",
        spec.name, spec.block_size);
    body.FromAttribute("blocks");
    std::string elements =
        AddShape(body, AddElements(body, spec, opset), "blocks", is_padded && bits < 8, "elements");
    if (low_bits > 0) elements = AddLowCodes(body, spec, elements, is_padded);
    const std::string scaled =
        body.Add("Mul", {elements, AddScales(body, spec)}, "weight_in_blocks");
    body.Add("Reshape", {scaled, body.FromAttribute("shape")}, "weight");
  }
  for (const PackedStorage::Part& part : storage.parts) function.inputs.push_back(part.suffix);
  return storage;
}

std::optional<PackedWeight> PackedWeightOf(const graph::Model& model, const graph::Node& node) {
  if (node.domain() != "bitpress" || !node.op_type().starts_with(kPrefix)) return std::nullopt;
  return WithContext(node.Describe(), [&] {
    std::string word = node.op_type().substr(std::strlen(kPrefix));
    if (word.ends_with(kPaddedSuffix)) word.resize(word.size() - std::strlen(kPaddedSuffix));
    PackedWeight weight;
    weight.spec = FormatOfWord(word);
    if (const std::string why = formats::WhyNotPackable(weight.spec); !why.empty()) {
      FailNotOurs(why);
    }
    if (node.num_outputs() != 1 || node.output(0).empty()) FailNotOurs("it must have one output");
    const formats::PackedSizes found = FoundSizes(model, node, weight.spec);
    if (weight.spec.is_blocked()) {
      weight.shape = node.GetInts("shape");
      const std::vector<int64_t> blocks = node.GetInts("blocks");
      if (blocks.size() != 4) FailNotOurs("attribute 'blocks' must have four numbers");
      const int64_t count = NumElements(blocks);
      if (count == 0 || count != NumElements(weight.shape)) {
        FailNotOurs("attributes 'shape' and 'blocks' must have as many elements, and some");
      }
      weight.view = {blocks[0], blocks[1] * blocks[2], blocks[3]};
    } else {
      const auto dims = model.Initializer(node.input(0)).dims;
      weight.shape.assign(dims.begin(), dims.end());
      weight.view = {1, NumElements(dims), 1};
    }
    const auto& [outer, axis, inner] = weight.view;
    const formats::PackedSizes expected = formats::SizesOf(weight.spec, outer, axis, inner);
    if (found != expected) {
      FailNotOurs(
          fmt::format("[{}, {}, {}] takes {} + {} + {} + {} bytes of codes, low codes, "
                      "scales and shifts, not {} + {} + {} + {}",
                      outer, axis, inner, expected.codes, expected.low_codes, expected.scales,
                      expected.shifts, found.codes, found.low_codes, found.scales, found.shifts));
    }
    return weight;
  });
}

}  // namespace bitpress::transform
