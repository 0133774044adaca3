#include "weights/unpack_integers.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/pack.h"
#include "graph/own_domain.h"
#include "weights/unpack_body.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;

constexpr const char* kAsymmetricSuffix = "_asymmetric";

bool IsSigned(const FormatSpec& spec) {
  return formats::IntegerRange(spec.element_type).quant_min < 0;
}

// Returns whether codes lie several to a byte: those of 2, 3 and 4 bits.
bool IsPlane(const FormatSpec& spec) { return spec.element_bits < 8; }

// Returns whether differences of codes need more than the 24 bits of a float.
bool IsWide(const FormatSpec& spec) { return spec.element_bits > 16; }

// Returns the initializer of codes. Its dimensions are `dims` unless codes lie several to a byte.
PackedStorage::Initializer CodesInitializer(std::string suffix, const FormatSpec& spec,
                                            std::vector<int64_t> dims) {
  if (!IsPlane(spec)) return {std::move(suffix), spec.onnx_type, std::move(dims)};
  const auto count = static_cast<size_t>(NumElements(dims));
  return PlaneInitializer(std::move(suffix), spec.element_bits,
                          formats::PackedBytes(count, spec.element_bits));
}

// Returns the number that each code means, in the order of their bits.
std::vector<float> NumbersOfCodes(const FormatSpec& spec) {
  const formats::CodeRange range = formats::IntegerRange(spec.element_type);
  std::vector<float> numbers;
  for (int64_t code = 0; code < int64_t{1} << spec.element_bits; ++code) {
    const bool is_negative = code > range.quant_max;
    numbers.push_back(
        static_cast<float>(is_negative ? code - (int64_t{1} << spec.element_bits) : code));
  }
  return numbers;
}

// Adds the numbers of codes in `shape`: floats, or int64 for wide codes.
std::string AddNumbers(UnpackBody& body, const FormatSpec& spec, const std::string& input,
                       const std::string& shape, UnpackBody::Padding padding,
                       const std::string& what) {
  std::string numbers =
      IsPlane(spec) ? body.Decode(input, spec.element_bits, NumbersOfCodes(spec), what)
                    : body.Cast(input, IsWide(spec) ? DataType::kInt64 : DataType::kFloat, what);
  if (!IsPlane(spec)) padding = UnpackBody::Padding::kNone;
  return body.InShape(std::move(numbers), shape, padding, what);
}

// Adds code - zero_point, as floats in the shape `blocks`.
std::string AddDifferences(UnpackBody& body, const FormatSpec& spec, bool is_asymmetric,
                           UnpackBody::Padding padding, const UnpackBody::Parts& parts,
                           const std::string& block_size) {
  std::string numbers = AddNumbers(body, spec, "codes", "blocks", padding, "elements");
  std::string zero_point;
  if (is_asymmetric) {
    const std::string shape = body.Add("Shape", {"scales"}, "scales_shape");
    // Zero points are few, so that their padding is always cut off.
    const std::string of_block =
        AddNumbers(body, spec, "zero_points", shape, UnpackBody::Padding::kBehind, "zero_point");
    zero_point = body.BehindParts(body.PerPart(of_block, parts, block_size, "part_zero_point"),
                                  "zero_point_in_parts");
  } else if (!IsSigned(spec)) {
    zero_point = body.IntAttribute("zero_point");
    if (!IsWide(spec)) zero_point = body.Cast(zero_point, DataType::kFloat, "zero_point_as_float");
  }
  if (!zero_point.empty()) numbers = body.Add("Sub", {numbers, zero_point}, "differences");
  return IsWide(spec) ? body.Cast(numbers, DataType::kFloat, "differences_as_float") : numbers;
}

template <typename Code>
int64_t CodeAt(std::span<const std::byte> bytes, size_t i) {
  Code code;
  std::memcpy(&code, bytes.data() + i * sizeof(Code), sizeof(Code));
  return code;
}

int64_t PlaneCodeAt(const FormatSpec& spec, std::span<const std::byte> bytes, size_t i) {
  const std::span<const uint8_t> packed(reinterpret_cast<const uint8_t*>(bytes.data()),
                                        bytes.size());
  const int64_t code = formats::CodeAt(packed, spec.element_bits, i);
  const bool is_negative = code > formats::IntegerRange(spec.element_type).quant_max;
  return is_negative ? code - (int64_t{1} << spec.element_bits) : code;
}

using CodeReader = int64_t (*)(const FormatSpec&, std::span<const std::byte>, size_t);

template <typename Code>
CodeReader Plain() {
  return [](const FormatSpec&, std::span<const std::byte> bytes, size_t i) {
    return CodeAt<Code>(bytes, i);
  };
}

CodeReader ReaderOf(const FormatSpec& spec) {
  if (IsPlane(spec)) return PlaneCodeAt;
  switch (spec.onnx_type) {
    case DataType::kInt8:
      return Plain<int8_t>();
    case DataType::kUInt8:
      return Plain<uint8_t>();
    case DataType::kInt16:
      return Plain<int16_t>();
    case DataType::kUInt16:
      return Plain<uint16_t>();
    case DataType::kInt32:
      return Plain<int32_t>();
    default:
      BITPRESS_DCHECK(spec.onnx_type == DataType::kUInt32);
      return Plain<uint32_t>();
  }
}

// Throws unless input `i` of the node is a constant of this type and so many elements. Lookups
// share parts with other operators, which have them in other dimensions.
void CheckPart(const graph::Model& model, const graph::Node& node, size_t i,
               const PackedStorage::Initializer& expected) {
  const StoredPart found = PartOf(model, node.input(i));
  if (found.type != expected.type || NumElements(found.dims) != NumElements(expected.dims)) {
    FailNotOurs(fmt::format("its {} are {} [{}], expected {} [{}]", expected.suffix,
                            DataTypeName(found.type), fmt::join(found.dims, ", "),
                            DataTypeName(expected.type), fmt::join(expected.dims, ", ")));
  }
}

}  // namespace

std::vector<int64_t> IntegerLayout::scale_dims() const {
  return {is_per_column ? view.outer : 1, num_blocks(), is_per_column ? view.inner : 1};
}

PackedStorage StoragePackedInteger(const FormatSpec& spec, std::span<const int64_t> shape,
                                   const IntegerLayout& layout) {
  BITPRESS_DCHECK(spec.is_integer());
  BITPRESS_DCHECK(layout.view.num_elements() > 0 &&
                  layout.view.num_elements() == NumElements(shape));
  const bool is_asymmetric = !layout.zero_point;
  const size_t group = IsPlane(spec) ? formats::PackGroupOf(spec.element_bits).num_codes : 1;
  const bool is_padded = static_cast<size_t>(NumElements(shape)) % group != 0;
  PackedStorage storage;
  storage.parts = {CodesInitializer("codes", spec, {shape.begin(), shape.end()}),
                   {"scales", DataType::kFloat, layout.scale_dims()}};
  storage.attributes = {{"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                        {"blocks", EqualParts(layout.view, layout.block_size)},
                        {"block_size", layout.block_size}};
  if (is_asymmetric) {
    storage.parts.push_back(CodesInitializer("zero_points", spec, layout.scale_dims()));
  } else if (!IsSigned(spec)) {
    storage.attributes.emplace_back("zero_point", *layout.zero_point);
  }

  graph::FunctionSpec& function = storage.function;
  function.domain = graph::kOwnDomain;
  function.name =
      fmt::format("{}{}{}{}", kUnpackPrefix, spec.name, is_asymmetric ? kAsymmetricSuffix : "",
                  is_padded ? kPaddedSuffix : "");
  function.doc = fmt::format(
      "The float values of a weight stored as {}: (code - zero point) * scale. `blocks` is [outer, "
      "parts, length, inner]: the shape with the axis cut into equal parts, none of which crosses "
      "the end of the `block_size` elements that share a scale.",
      spec.name);
  function.outputs = {"weight"};
  for (const PackedStorage::Initializer& part : storage.parts) {
    function.inputs.push_back(part.suffix);
  }
  for (const auto& [name, value] : storage.attributes) function.attributes.push_back(name);
  UnpackBody body(function);
  body.IntsAttribute("blocks");
  const std::string block_size = body.IntAttribute("block_size");
  const UnpackBody::Parts parts = body.AddParts();
  const std::string differences = AddDifferences(
      body, spec, is_asymmetric, UnpackBody::PaddingIf(is_padded), parts, block_size);
  const std::string scale =
      body.BehindParts(body.PerPart("scales", parts, block_size, "part_scale"), "scale_in_blocks");
  const std::string scaled = body.Add("Mul", {differences, scale}, "weight_in_blocks");
  body.Add("Reshape", {scaled, body.IntsAttribute("shape")}, "weight");
  return storage;
}

std::optional<PackedWeight> PackedIntegerOf(const graph::Model& model, const graph::Node& node,
                                            std::string_view word) {
  const bool is_asymmetric = word.ends_with(kAsymmetricSuffix);
  if (is_asymmetric) word.remove_suffix(std::strlen(kAsymmetricSuffix));
  const auto known = formats::AllFormats();
  const auto spec = std::ranges::find_if(known, [&](const FormatSpec& candidate) {
    return candidate.is_integer() && candidate.name == word;
  });
  if (spec == known.end()) return std::nullopt;
  PackedWeight weight;
  weight.spec = *spec;
  ReadShape(node, weight);
  PackedWeight::Integer integer;
  integer.block_size = node.GetInt("block_size", 0);
  integer.has_zero_points = is_asymmetric;
  if (integer.block_size < 1) {
    FailNotOurs(fmt::format("attribute 'block_size' is {}", integer.block_size));
  }
  if (!is_asymmetric && !IsSigned(*spec)) {
    integer.zero_point = node.GetInt("zero_point", 0);
    const formats::CodeRange range = formats::IntegerRange(spec->element_type);
    if (integer.zero_point < range.quant_min || integer.zero_point > range.quant_max) {
      FailNotOurs(
          fmt::format("attribute 'zero_point' is {}, no code of {}", integer.zero_point, word));
    }
  }
  const size_t num_parts = is_asymmetric ? 3 : 2;
  const PackedReader reader = *PackedReaderOf(node);
  if (reader.first_part != 0 || reader.parts_end != num_parts) {
    FailNotOurs(fmt::format("it has {} inputs, expected {}", node.num_inputs(),
                            num_parts + node.num_inputs() - reader.parts_end));
  }
  IntegerLayout layout{.view = weight.view,
                       .block_size = integer.block_size,
                       .is_per_column = false,
                       .zero_point = 0};
  if (EqualParts(layout.view, layout.block_size) != node.GetInts("blocks")) {
    FailNotOurs(
        fmt::format("attribute 'blocks' does not follow from block_size {}", integer.block_size));
  }
  CheckPart(model, node, 0, CodesInitializer("codes", *spec, weight.shape));
  // If there are as many in both layouts, the scales are the same.
  layout.is_per_column =
      NumElements(PartOf(model, node.input(1)).dims) != NumElements(layout.scale_dims());
  CheckPart(model, node, 1, {"scales", DataType::kFloat, layout.scale_dims()});
  if (is_asymmetric) {
    CheckPart(model, node, 2, CodesInitializer("zero_points", *spec, layout.scale_dims()));
  }
  integer.is_per_column = layout.is_per_column;
  weight.integer = integer;
  return weight;
}

void UnpackInteger(const PackedWeight& weight, std::span<const std::span<const std::byte>> parts,
                   std::span<float> y, ThreadPool& pool) {
  BITPRESS_DCHECK(weight.integer.has_value());
  BITPRESS_DCHECK(y.size() == static_cast<size_t>(NumElements(weight.shape)));
  const PackedWeight::Integer& integer = *weight.integer;
  const CodeReader code_at = ReaderOf(weight.spec);
  const auto axis = static_cast<size_t>(weight.view.axis);
  const auto inner = static_cast<size_t>(weight.view.inner);
  const auto block_size = static_cast<size_t>(std::min(integer.block_size, weight.view.axis));
  const size_t num_blocks = (axis + block_size - 1) / block_size;
  // One task for each block of each row.
  pool.ParallelFor(static_cast<size_t>(weight.view.outer) * num_blocks, [&](size_t task) {
    const size_t row = task / num_blocks;
    const size_t block = task % num_blocks;
    const size_t end = std::min(axis, (block + 1) * block_size);
    for (size_t k = block * block_size; k < end; ++k) {
      for (size_t column = 0; column < inner; ++column) {
        const size_t i = (row * axis + k) * inner + column;
        const size_t group = integer.is_per_column ? task * inner + column : block;
        float scale = 0;
        std::memcpy(&scale, parts[1].data() + group * sizeof(scale), sizeof(scale));
        const int64_t zero_point =
            integer.has_zero_points ? code_at(weight.spec, parts[2], group) : integer.zero_point;
        const int64_t difference = code_at(weight.spec, parts[0], i) - zero_point;
        y[i] = static_cast<float>(difference) * scale;
      }
    }
  });
}

}  // namespace bitpress::weights
