#include "weights/unpack_body.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "formats/pack.h"
#include "kernels/half.h"

namespace bitpress::weights {
namespace {

using graph::AttributeReference;

template <typename T>
Tensor MakeTensor(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  Tensor tensor{type, std::move(dims), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace

std::string UnpackBody::Add(std::string op_type, std::vector<std::string> inputs,
                            std::string output, Attributes attributes) {
  function_.nodes.push_back(
      {output, std::move(op_type), "", std::move(inputs), {output}, std::move(attributes)});
  return output;
}

std::string UnpackBody::Constant(std::string name, Tensor value) {
  return Add("Constant", {}, std::move(name), {{"value", std::move(value)}});
}

std::string UnpackBody::Floats(std::string name, std::vector<int64_t> dims,
                               const std::vector<float>& values) {
  return Constant(std::move(name), MakeTensor(DataType::kFloat, std::move(dims), values));
}

std::string UnpackBody::Table(std::string name, std::vector<int64_t> dims,
                              const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  std::vector<float> exact(values.size());
  kernels::FloatToHalf(values, halves.data());
  kernels::HalfToFloat(halves, exact.data());
  if (std::memcmp(exact.data(), values.data(), values.size() * sizeof(float)) != 0) {
    return Floats(std::move(name), std::move(dims), values);
  }
  const std::string stored =
      Constant(name + "_stored", MakeTensor(DataType::kFloat16, std::move(dims), halves));
  return Cast(stored, DataType::kFloat, std::move(name));
}

std::string UnpackBody::Int64s(std::string name, const std::vector<int64_t>& values) {
  return Constant(std::move(name),
                  MakeTensor(DataType::kInt64, {static_cast<int64_t>(values.size())}, values));
}

std::string UnpackBody::Int32s(std::string name, const std::vector<int32_t>& values) {
  return Constant(std::move(name),
                  MakeTensor(DataType::kInt32, {static_cast<int64_t>(values.size())}, values));
}

std::string UnpackBody::Scalar(std::string name, int64_t value) {
  return Constant(std::move(name), MakeTensor<int64_t>(DataType::kInt64, {}, {value}));
}

std::string UnpackBody::IntsAttribute(const std::string& name) {
  return Add("Constant", {}, name,
             {{"value_ints", AttributeReference{name, AttributeReference::Type::kInts}}});
}

std::string UnpackBody::IntAttribute(const std::string& name) {
  return Add("Constant", {}, name,
             {{"value_int", AttributeReference{name, AttributeReference::Type::kInt}}});
}

std::string UnpackBody::Cast(std::string input, DataType type, std::string output) {
  return Add("Cast", {std::move(input)}, std::move(output), {{"to", static_cast<int64_t>(type)}});
}

std::string UnpackBody::Decode(const std::string& input, int bits, const std::vector<float>& table,
                               const std::string& what) {
  BITPRESS_DCHECK(table.size() == size_t{1} << bits);
  const formats::PackGroup group = formats::PackGroupOf(bits);
  const std::string bytes = Cast(input, DataType::kInt32, what + "_bytes");
  // The codes within one byte come from one lookup.
  std::vector<float> by_byte;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t i = 0; i < group.codes_per_byte; ++i) {
      const uint32_t code = byte >> (i * static_cast<size_t>(bits));
      by_byte.push_back(table[code & ((1U << static_cast<unsigned>(bits)) - 1)]);
    }
  }
  std::vector<int64_t> dims{256};
  if (group.codes_per_byte > 1) dims.push_back(static_cast<int64_t>(group.codes_per_byte));
  const std::string values =
      Add("Gather", {Table(what + "_of_byte", dims, by_byte), bytes}, what + "_within_bytes");
  if (group.spare_bits == 0) return values;
  return AddSpare(bytes, values, bits, table, what);
}

std::string UnpackBody::SpareStream(const std::string& bytes, const formats::PackGroup& group,
                                    const std::string& what) {
  std::vector<int32_t> weights;
  for (size_t i = 0; i < group.num_bytes; ++i)
    weights.push_back(1 << (group.spare_bits * static_cast<int>(i)));
  const std::string spare =
      Add("Div", {bytes, Int32s(what + "_spare_unit", {1 << (8 - group.spare_bits)})},
          what + "_spare_bits");
  // A product, because ONNX Runtime's ReduceSum leaves the shape as it is where there are no bytes.
  const std::string column =
      Add("Reshape",
          {Int32s(what + "_spare_weights", weights), Int64s(what + "_column_shape", {-1, 1})},
          what + "_spare_column");
  return Add("MatMul", {spare, column}, what + "_spare_stream");
}

// Adds the codes made of the spare high bits of a group's bytes, behind the codes within the bytes.
std::string UnpackBody::AddSpare(const std::string& bytes, const std::string& values, int bits,
                                 const std::vector<float>& table, const std::string& what) {
  const formats::PackGroup group = formats::PackGroupOf(bits);
  std::vector<int32_t> steps;
  for (size_t i = group.num_bytes * group.codes_per_byte; i < group.num_codes; ++i) {
    steps.push_back(1 << (bits * static_cast<int>(steps.size())));
  }
  const std::string stream = SpareStream(bytes, group, what);
  const std::string shifted =
      Add("Div", {stream, Int32s(what + "_spare_steps", steps)}, what + "_spare_shifted");
  const std::string codes =
      Add("Mod", {shifted, Int32s(what + "_num_codes", {1 << bits})}, what + "_spare_codes");
  const auto num_codes = static_cast<int64_t>(table.size());
  const std::string others =
      Add("Gather", {Table(what + "_of_code", {num_codes}, table), codes}, what + "_of_spare_bits");
  // There may be no group at all, and a shape of [0, -1] would be ambiguous.
  const auto num_whole = static_cast<int64_t>(group.num_bytes * group.codes_per_byte);
  const std::string rows =
      Add("Reshape", {values, Int64s(what + "_rows_shape", {-1, num_whole})}, what + "_rows");
  return Add("Concat", {rows, others}, what + "_groups", {{"axis", int64_t{1}}});
}

std::string UnpackBody::InShape(std::string values, const std::string& shape, Padding padding,
                                const std::string& name) {
  if (padding == Padding::kBehind) {
    const std::string count =
        Add("ReduceProd", {shape}, name + "_count", {{"keepdims", int64_t{1}}});
    const std::string flat = Add("Reshape", {std::move(values), Int64s(name + "_flat_shape", {-1})},
                                 name + "_and_padding");
    values = Add("Slice", {flat, Int64s(name + "_begin", {0}), count}, name + "_flat");
  }
  return Add("Reshape", {std::move(values), shape}, name + "_in_blocks");
}

UnpackBody::Parts UnpackBody::AddParts() {
  const std::string zero = Scalar("zero", 0);
  const std::string one = Scalar("one", 1);
  Parts parts;
  parts.count = Add("Gather", {"blocks", one}, "num_parts");
  parts.length = Add("Gather", {"blocks", Scalar("two", 2)}, "part_length");
  parts.begin =
      Add("Mul", {Add("Range", {zero, parts.count, one}, "part"), parts.length}, "part_begin");
  return parts;
}

std::string UnpackBody::PerPart(const std::string& values, const Parts& parts,
                                const std::string& size, const std::string& name) {
  const std::string index = Add("Div", {parts.begin, size}, name + "_of_part");
  return Add("Gather", {values, index}, name, {{"axis", int64_t{1}}});
}

std::string UnpackBody::BehindParts(std::string values, std::string name) {
  const std::string axis = Int64s(name + "_axis", {2});
  return Add("Unsqueeze", {std::move(values), axis}, std::move(name));
}

}  // namespace bitpress::weights
