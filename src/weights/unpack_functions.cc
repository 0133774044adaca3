#include "weights/unpack_functions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/block_units.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"
#include "formats/parameters.h"
#include "graph/own_domain.h"
#include "ops/quantizer_nodes.h"
#include "weights/unpack_body.h"
#include "weights/unpack_groups.h"
#include "weights/unpack_integers.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;

// Returns the format's word in names of functions: "mxfp6_e2m3", or "bfp_bits13_block32" for
// bfp(bits=13, block=32), "mxint8_block16" for mxint8(block=16).
std::string WordOf(const FormatSpec& spec) {
  std::string word(formats::BaseName(spec));
  if (!formats::HasParameters(spec)) return word;
  for (const formats::FormatParameter& parameter : formats::ParametersOf(formats::BaseName(spec))) {
    const int64_t value = formats::ValueOf(spec, parameter);
    if (!parameter.is_required && value == parameter.fallback) continue;
    word += fmt::format("_{}{}", parameter.word, value);
  }
  return word;
}

// Returns the format of a function's name without prefix and suffix. Throws as FindFormat.
FormatSpec FormatOfWord(const std::string& word) {
  for (const std::string_view base : formats::ParametricBases()) {
    const std::span<const formats::FormatParameter> parameters = formats::ParametersOf(base);
    const std::string begin = fmt::format("{}_{}", base, parameters.front().word);
    if (!word.starts_with(begin)) continue;
    const FormatSpec spec =
        formats::MakeFormat(base, [&](const formats::FormatParameter& parameter) {
          const std::string key = fmt::format("_{}", parameter.word);
          const size_t at = word.find(key, base.size());
          int value = 0;
          if (at == std::string::npos) return parameter.fallback;
          return std::sscanf(word.c_str() + at + key.size(), "%d", &value) == 1 ? int64_t{value}
                                                                                : -1;
        });
    if (WordOf(spec) != word) Fail(ErrorCode::kInvalidArgument, "'{}' is no format", word);
    return spec;
  }
  return formats::FindFormat(word);
}

DataType CodeType(const FormatSpec& spec, int64_t opset) {
  if (HasFloat8Codes(spec)) {
    return opset >= kFirstFloat8Opset ? spec.onnx_type : DataType::kUInt8;
  }
  return spec.onnx_type == DataType::kInt8 ? DataType::kInt8 : DataType::kUInt8;
}

// Returns the equal parts of the axis that cross no end of a block or of a sub-block.
std::vector<int64_t> Blocks(const FormatSpec& spec, const BlockView& view) {
  std::vector<int64_t> blocks = EqualParts(view, spec.block_size);
  if (spec.sub_block_size > 0) {
    const int64_t length = std::gcd(blocks[2], int64_t{spec.sub_block_size});
    blocks[1] = view.axis / length;
    blocks[2] = length;
  }
  return blocks;
}

std::vector<float> ShiftTable(int bits) {
  std::vector<float> table;
  for (int shift = 0; shift < 1 << bits; ++shift) table.push_back(std::ldexp(1.0F, -shift));
  return table;
}

// Adds the values of elements in the units of formats::ElementTable, flat or in the weight's shape.
std::string AddElements(UnpackBody& body, const FormatSpec& spec, int64_t opset) {
  const int bits = formats::CodePlaneBits(spec);
  if (bits == 8 && CodeType(spec, opset) != DataType::kUInt8) {
    return body.Cast("codes", DataType::kFloat, "elements");
  }
  return body.Decode("codes", bits, formats::ElementTable(spec), "elements");
}

// Adds the low bits of wide codes to their elements. They count away from zero.
std::string AddLowCodes(UnpackBody& body, const FormatSpec& spec, std::string elements,
                        UnpackBody::Padding padding) {
  const int bits = formats::LowCodePlaneBits(spec);
  std::vector<float> numbers;
  for (int code = 0; code < 1 << bits; ++code) numbers.push_back(static_cast<float>(code));
  const std::string low =
      body.InShape(body.Decode("low_codes", bits, numbers, "low"), "blocks", padding, "low");
  std::vector<float> signs(256, 1.0F);
  std::fill(signs.begin() + 128, signs.end(), -1.0F);
  const std::string sign = body.InShape(body.Decode("codes", 8, signs, "sign"), "blocks",
                                        UnpackBody::Padding::kNone, "sign");
  return body.Add("Add", {std::move(elements), body.Add("Mul", {sign, low}, "signed_low")},
                  "whole_elements");
}

// Adds the scales, one for each part of Blocks: [outer, parts, 1, inner].
std::string AddScales(UnpackBody& body, const FormatSpec& spec) {
  const auto table = formats::ScaleTable(spec);
  const std::string scale_of_byte =
      body.Floats("scale_of_byte", {256}, std::vector<float>(table.begin(), table.end()));
  const std::string scale = body.Add(
      "Gather", {scale_of_byte, body.Cast("scales", DataType::kInt32, "scale_bytes")}, "scale");
  const UnpackBody::Parts parts = body.AddParts();
  std::string result =
      body.PerPart(scale, parts, body.Scalar("block_size", spec.block_size), "block_scale");
  if (formats::HasShifts(spec)) {
    const int bits = spec.sub_block_shift_bits;
    const std::string sub_block = body.Scalar("sub_block_size", spec.sub_block_size);
    const std::string axis = body.Add("Mul", {parts.count, parts.length}, "axis_length");
    const std::string rounded_up = body.Add(
        "Add", {axis, body.Scalar("round_up", spec.sub_block_size - 1)}, "axis_length_rounded_up");
    const std::string num_sub_blocks = body.Add("Div", {rounded_up, sub_block}, "num_sub_blocks");
    const std::string at_zero = body.Int64s("at_zero", {0});
    const auto as_list = [&](const std::string& scalar) {
      return body.Add("Unsqueeze", {scalar, at_zero}, scalar + "_list");
    };
    const std::string outer = body.Add("Gather", {"blocks", body.Scalar("first", 0)}, "num_outer");
    const std::string inner = body.Add("Gather", {"blocks", body.Scalar("three", 3)}, "num_inner");
    const std::string shape =
        body.Add("Concat", {as_list(outer), as_list(num_sub_blocks), as_list(inner)}, "shift_shape",
                 {{"axis", int64_t{0}}});
    // Shifts are few, so that their padding is always cut off.
    const std::string factors = body.InShape(body.Decode("shifts", bits, ShiftTable(bits), "shift"),
                                             shape, UnpackBody::Padding::kBehind, "shift");
    result = body.Add("Mul", {result, body.PerPart(factors, parts, sub_block, "sub_block_scale")},
                      "part_scale");
  }
  return body.BehindParts(result, "scale_in_blocks");
}

// Adds the body for weights whose groups of bytes lie anyhow. There may be padding behind them.
void AddGeneralBody(UnpackBody& body, const FormatSpec& spec, int64_t opset) {
  body.IntsAttribute("blocks");
  std::string elements =
      body.InShape(AddElements(body, spec, opset), "blocks",
                   UnpackBody::PaddingIf(formats::CodePlaneBits(spec) < 8), "elements");
  if (formats::LowCodePlaneBits(spec) > 0) {
    elements = AddLowCodes(body, spec, elements, UnpackBody::Padding::kBehind);
  }
  const std::string scaled = body.Add("Mul", {elements, AddScales(body, spec)}, "weight_in_blocks");
  body.Add("Reshape", {scaled, body.IntsAttribute("shape")}, "weight");
}

void AddPlainBody(UnpackBody& body, const FormatSpec& spec, DataType type) {
  if (type == DataType::kUInt8) {
    const std::string values = body.Decode("codes", 8, formats::ElementTable(spec), "elements");
    body.Add("Identity", {values}, "weight");
  } else {
    body.Cast("codes", DataType::kFloat, "weight");
  }
}

// Returns how the elements of a weight without blocks lie for its reader: along the sums. Throws
// the error of FailNotOurs if it computes with no such weight.
BlockView ViewWithoutBlocks(const FormatSpec& spec, const std::vector<int64_t>& shape,
                            const PackedReader& reader, const graph::Node& node) {
  const int64_t count = NumElements(shape);
  const bool is_unpack = reader.kind == PackedReader::Kind::kUnpack;
  if (!is_unpack && !formats::BlockUnitsOf(spec)) FailNotOurs("it has no blocks");
  switch (reader.kind) {
    case PackedReader::Kind::kProduct:
      if (shape.size() != 2) FailNotOurs("it is no matrix");
      return ViewAlongSums(shape, node.GetInts("perm") == std::vector<int64_t>{1, 0});
    case PackedReader::Kind::kConvolution:
      if (shape.size() < 3 || count == 0) FailNotOurs("it has fewer than three dimensions");
      return ViewAlongSums(shape, /*is_transposed=*/false);
    case PackedReader::Kind::kLookup:
      FailNotOurs("it has no blocks");
    default:
      return {1, count, 1};
  }
}

// Returns the bytes of the initializers that a node reads. The format alone says which is which.
formats::PackedSizes FoundSizes(const graph::Model& model, const graph::Node& node,
                                const FormatSpec& spec) {
  const std::vector<formats::PackedPart> parts = formats::PartsOf(spec);
  const PackedReader reader = *PackedReaderOf(node);
  const size_t count = reader.parts_end - reader.first_part;
  if (count != parts.size()) {
    const size_t others = node.num_inputs() - count;
    FailNotOurs(
        fmt::format("it has {} inputs, expected {}", node.num_inputs(), others + parts.size()));
  }
  formats::PackedSizes sizes;
  for (size_t i = 0; i < parts.size(); ++i) {
    sizes[parts[i]] = PartOf(model, node.input(reader.first_part + i)).num_bytes;
  }
  return sizes;
}

}  // namespace

std::optional<PackedReader> PackedReaderOf(const graph::Node& node) {
  using Kind = PackedReader::Kind;
  struct Row {
    const char* prefix;
    Kind kind;
    size_t before, behind;  // inputs before and behind the parts
  };
  static constexpr Row kRows[] = {{kUnpackPrefix, Kind::kUnpack, 0, 0},
                                  {kProductPrefix, Kind::kProduct, 1, 1},
                                  {kProductClipPrefix, Kind::kProduct, 1, 1},
                                  {kLookupPrefix, Kind::kLookup, 0, 1},
                                  {kConvolutionPrefix, Kind::kConvolution, 1, 1},
                                  {kConvolutionAddPrefix, Kind::kConvolution, 1, 2}};
  if (node.domain() != "bitpress") return std::nullopt;
  for (const Row& row : kRows) {
    if (!node.op_type().starts_with(row.prefix)) continue;
    PackedReader reader{row.kind, node.op_type().substr(std::strlen(row.prefix)), row.before, 0};
    if (row.kind == Kind::kConvolution) {
      reader.decoder.resize(std::min(reader.decoder.size(), reader.decoder.find(kInputInfix)));
    }
    reader.parts_end = std::max(row.before + row.behind, node.num_inputs()) - row.behind;
    return reader;
  }
  return std::nullopt;
}

BlockView ViewAlongSums(std::span<const int64_t> shape, bool is_transposed) {
  if (shape.size() > 2) return {shape[0], shape[1], NumElements(shape) / (shape[0] * shape[1])};
  return is_transposed ? BlockView{shape[0], shape[1], 1} : BlockView{1, shape[0], shape[1]};
}

void FailNotOurs(std::string_view what) {
  Fail(ErrorCode::kInvalidModel, "it does not decode a weight as bitpress stores them: {}", what);
}

StoredPart PartOf(const graph::Model& model, const std::string& name) {
  if (!model.IsInitializer(name)) {
    FailNotOurs(fmt::format("its input '{}' is not in the model", name));
  }
  if (!model.IsDeferred(name)) {
    const graph::InitializerView view = model.Initializer(name);
    return {view.type, {view.dims.begin(), view.dims.end()}, view.bytes.size()};
  }
  const graph::ValueInfo info = model.InfoOf(name);
  StoredPart part{info.type, {}, 0};
  for (const graph::Dimension& dim : info.shape) part.dims.push_back(dim.value);
  part.num_bytes = NumBytes(part.type, NumElements(part.dims));
  return part;
}

void ReadShape(const graph::Node& node, PackedWeight& weight) {
  weight.shape = node.GetInts("shape");
  const std::vector<int64_t> blocks = node.GetInts("blocks");
  if (blocks.size() != 4) FailNotOurs("attribute 'blocks' must have four numbers");
  const int64_t count = NumElements(blocks);
  if (count == 0 || count != NumElements(weight.shape)) {
    FailNotOurs("attributes 'shape' and 'blocks' must have as many elements, and some");
  }
  weight.view = {blocks[0], blocks[1] * blocks[2], blocks[3]};
}

PackedStorage::Initializer PlaneInitializer(std::string suffix, int bits, size_t num_bytes) {
  const formats::PackGroup group = formats::PackGroupOf(bits);
  PackedStorage::Initializer part{std::move(suffix), DataType::kUInt8, {}};
  const auto row = static_cast<int64_t>(group.spare_bits == 0 ? 1 : group.num_bytes);
  part.dims = {static_cast<int64_t>(num_bytes) / row};
  if (row > 1) part.dims.push_back(row);
  return part;
}

std::vector<int64_t> EqualParts(const BlockView& view, int64_t block_size) {
  const int64_t length = view.axis <= block_size ? view.axis : std::gcd(block_size, view.axis);
  return {view.outer, view.axis / length, length, view.inner};
}

bool HasFloat8Codes(const FormatSpec& spec) {
  return spec.onnx_type == DataType::kFloat8E4M3FN || spec.onnx_type == DataType::kFloat8E5M2;
}

PackedStorage StoragePacked(const FormatSpec& spec, std::span<const int64_t> shape,
                            const BlockView& view, int64_t opset) {
  BITPRESS_DCHECK(formats::WhyNotPackable(spec).empty() && opset >= kFirstPackedOpset);
  BITPRESS_DCHECK(view.num_elements() > 0 && view.num_elements() == NumElements(shape));
  const formats::PackedSizes sizes = formats::SizesOf(spec, view.outer, view.axis, view.inner);
  PackedStorage storage;
  graph::FunctionSpec& function = storage.function;
  function.domain = graph::kOwnDomain;
  function.name = kUnpackPrefix + WordOf(spec);
  function.outputs = {"weight"};
  UnpackBody body(function);

  if (!spec.is_blocked()) {
    const DataType type = spec.element_bits == 16 ? spec.onnx_type : CodeType(spec, opset);
    storage.parts.push_back({"codes", type, {shape.begin(), shape.end()}});
    function.doc = fmt::format("The float values of a weight stored as {}.", spec.name);
    AddPlainBody(body, spec, type);
  } else {
    const int bits = formats::CodePlaneBits(spec);
    const int low_bits = formats::LowCodePlaneBits(spec);
    const std::optional<GroupShapes> groups = GroupShapesOf(spec, view);
    // Only the general body can cut off what fills up the last group.
    if (!groups) function.name += kPaddedSuffix;
    if (bits == 8) {
      storage.parts.push_back({"codes", CodeType(spec, opset), {shape.begin(), shape.end()}});
    } else {
      storage.parts.push_back(PlaneInitializer("codes", bits, sizes.codes));
    }
    if (low_bits > 0) {
      storage.parts.push_back(PlaneInitializer("low_codes", low_bits, sizes.low_codes));
    }
    const int64_t num_blocks = static_cast<int64_t>(sizes.scales) / (view.outer * view.inner);
    storage.parts.push_back({"scales", DataType::kUInt8, {view.outer, num_blocks, view.inner}});
    if (sizes.shifts > 0) {
      storage.parts.push_back(PlaneInitializer("shifts", spec.sub_block_shift_bits, sizes.shifts));
    }
    storage.attributes = {{"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                          {"blocks", Blocks(spec, view)}};
    function.attributes = {"shape", "blocks"};
    if (groups) {
      for (const auto& attribute : *groups) {
        storage.attributes.push_back(attribute);
        function.attributes.push_back(attribute.first);
      }
    }
    function.doc = fmt::format(
        "The float values of a weight stored as {}: the value of each code times the power of two "
        "that its block of {} shares. `blocks` is [outer, parts, length, inner]: the shape with "
        "the blocked axis cut into equal parts, none of which crosses the end of a block.{}",
        spec.name, spec.block_size,
        groups ? " The other attributes are shapes in which the parts of a block meet." : "");
    if (groups) {
      AddGroupBody(body, spec, CodeType(spec, opset));
    } else {
      AddGeneralBody(body, spec, opset);
    }
  }
  for (const PackedStorage::Initializer& part : storage.parts) {
    function.inputs.push_back(part.suffix);
  }
  return storage;
}

std::optional<PackedWeight> PackedWeightOf(const graph::Model& model, const graph::Node& node) {
  const std::optional<PackedReader> reader = PackedReaderOf(node);
  if (!reader) return std::nullopt;
  return WithContext(node.Describe(), [&] {
    std::string word = reader->decoder;
    if (word.ends_with(kPaddedSuffix)) word.resize(word.size() - std::strlen(kPaddedSuffix));
    if (auto integer = PackedIntegerOf(model, node, word)) return *std::move(integer);
    PackedWeight weight;
    weight.spec = node.HasAttribute(kFormatAttribute)
                      ? formats::FindFormat(node.GetString(kFormatAttribute, ""))
                      : FormatOfWord(word);
    if (const std::string why = formats::WhyNotPackable(weight.spec); !why.empty()) {
      FailNotOurs(why);
    }
    if (node.num_outputs() != 1 || node.output(0).empty()) FailNotOurs("it must have one output");
    const formats::PackedSizes found = FoundSizes(model, node, weight.spec);
    if (weight.spec.is_blocked()) {
      ReadShape(node, weight);
    } else {
      weight.shape = PartOf(model, node.input(reader->first_part)).dims;
      weight.view = ViewWithoutBlocks(weight.spec, weight.shape, *reader, node);
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

}  // namespace bitpress::weights
