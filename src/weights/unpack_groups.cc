#include "weights/unpack_groups.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;

// Sub-blocks have one shift of one bit, eight to a byte. So groups of theirs have eight codes.
constexpr int64_t kShiftsInByte = 8;

Tensor Bytes(std::vector<int64_t> dims, const std::vector<uint8_t>& values) {
  Tensor tensor{DataType::kUInt8, std::move(dims), std::vector<std::byte>(values.size())};
  std::memcpy(tensor.bytes.data(), values.data(), values.size());
  return tensor;
}

std::vector<uint8_t> BitsOfBytes() {
  std::vector<uint8_t> bits;
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned i = 0; i < kShiftsInByte; ++i) bits.push_back((byte >> i) & 1U);
  }
  return bits;
}

// Adds the shift of each code, in the shape of the groups.
std::string AddShifts(UnpackBody& body, const FormatSpec& spec) {
  const std::string bytes = body.Cast("shifts", DataType::kInt32, "shift_bytes");
  const std::string bits =
      body.Constant("bits_of_byte", Bytes({256, kShiftsInByte}, BitsOfBytes()));
  const std::string shifts = body.Add(
      "Reshape",
      {body.Add("Gather", {bits, bytes}, "shift_of_bit"), body.IntsAttribute("sub_blocks")},
      "shift_of_sub_block");
  const std::vector<std::string> copies(static_cast<size_t>(spec.sub_block_size), shifts);
  const std::string repeated =
      body.Add("Concat", copies, "shift_of_element", {{"axis", int64_t{2}}});
  return body.Add("Reshape", {repeated, body.IntsAttribute("shift_groups")}, "shift_of_code");
}

// Adds the values of codes, which are bytes in the shape of the groups.
std::string AddValues(UnpackBody& body, const FormatSpec& spec, const std::string& bytes) {
  const int bits = formats::CodePlaneBits(spec);
  const GroupLookup lookup = LookupOf(bits, formats::HasShifts(spec));
  std::string index;
  if (lookup.weights.empty()) {
    index = body.Cast(bytes, DataType::kInt32, "index");
  } else {
    std::vector<std::string> rows{bytes};
    int64_t num_rows = lookup.num_bytes;
    if (lookup.spare_bits > 0) {
      const auto distance = static_cast<uint8_t>(8 - lookup.spare_bits);
      rows.push_back(body.Add("BitShift",
                              {bytes, body.Constant("below_spare", Bytes({}, {distance}))},
                              "spare_bits", {{"direction", std::string("RIGHT")}}));
      num_rows += lookup.num_bytes;
    }
    if (lookup.num_shifts > 0) {
      rows.push_back(AddShifts(body, spec));
      num_rows += lookup.num_shifts;
    }
    const std::string row =
        rows.size() == 1 ? bytes : body.Add("Concat", rows, "group", {{"axis", int64_t{-1}}});
    const std::string weights =
        body.Constant("weights", Bytes({num_rows, lookup.num_indexes}, lookup.weights));
    // Both factors are unsigned: ONNX Runtime adds such products exactly on every processor.
    index = body.Add("MatMulInteger", {row, weights}, "index");
  }
  std::vector<int64_t> dims{int64_t{1} << lookup.index_bits};
  if (lookup.values_per_index > 1) dims.push_back(lookup.values_per_index);
  const std::string table =
      body.Table("value_of_index", dims, TableOf(lookup, bits, formats::ElementTable(spec)));
  return body.Add("Gather", {table, index}, "values");
}

}  // namespace

GroupLookup LookupOf(int bits, bool has_shifts) {
  BITPRESS_DCHECK(!has_shifts || CanHaveShifts(bits));
  const formats::PackGroup group = formats::PackGroupOf(bits);
  const auto per_byte = static_cast<int64_t>(group.codes_per_byte);
  const auto group_bytes = static_cast<int64_t>(group.num_bytes);
  const auto group_codes = static_cast<int64_t>(group.num_codes);
  GroupLookup lookup;
  // Groups of few codes are taken together.
  const int64_t num_groups = has_shifts ? kShiftsInByte / group_codes : 1;
  lookup.num_bytes = num_groups * group_bytes;
  lookup.spare_bits = group.spare_bits;
  lookup.values_per_index = per_byte;
  lookup.num_indexes = num_groups * group_codes / per_byte;
  if (group.spare_bits == 0 && !has_shifts) return lookup;

  const int shift_bits = has_shifts ? static_cast<int>(per_byte) : 0;
  lookup.num_shifts = has_shifts ? kShiftsInByte : 0;
  // The codes behind those of the bytes begin within the spare bits of some byte. All indexes get
  // as many bits below their codes as the one that needs most.
  const int width = bits * static_cast<int>(per_byte);
  const int64_t num_spare = lookup.num_indexes - lookup.num_bytes;
  const auto bits_before = [&](int64_t i) {
    return static_cast<int>(i) * width % group.spare_bits;
  };
  int most_before = 0;
  for (int64_t i = 0; i < num_spare; ++i) most_before = std::max(most_before, bits_before(i));
  lookup.low_bits = shift_bits + most_before;

  const int64_t spare_rows = group.spare_bits > 0 ? lookup.num_bytes : 0;
  const int64_t num_rows = lookup.num_bytes + spare_rows + lookup.num_shifts;
  lookup.weights.assign(static_cast<size_t>(num_rows * lookup.num_indexes), 0);
  const auto set = [&](int64_t row, int64_t index, int bit) {
    BITPRESS_DCHECK(bit < 8);
    lookup.weights[static_cast<size_t>(row * lookup.num_indexes + index)] =
        static_cast<uint8_t>(1U << static_cast<unsigned>(bit));
  };
  for (int64_t i = 0; i < lookup.num_bytes; ++i) set(i, i, lookup.low_bits);
  lookup.index_bits = 8 + lookup.low_bits;
  for (int64_t i = 0; i < num_spare; ++i) {
    const auto begin = static_cast<int>(i) * width;
    int bit = lookup.low_bits - bits_before(i);
    for (int64_t field = begin / group.spare_bits; field * group.spare_bits < begin + width;
         ++field) {
      set(lookup.num_bytes + field, lookup.num_bytes + i, bit);
      bit += group.spare_bits;
    }
    lookup.index_bits = std::max(lookup.index_bits, bit);
  }
  for (int64_t code = 0; code < lookup.num_shifts; ++code) {
    set(lookup.num_bytes + spare_rows + code, code / per_byte, static_cast<int>(code % per_byte));
  }
  return lookup;
}

std::vector<float> TableOf(const GroupLookup& lookup, int bits, const std::vector<float>& values) {
  std::vector<float> table;
  for (uint32_t index = 0; index < 1U << lookup.index_bits; ++index) {
    for (int64_t i = 0; i < lookup.values_per_index; ++i) {
      const auto below = static_cast<unsigned>(lookup.low_bits + static_cast<int>(i) * bits);
      const float value = values[(index >> below) & ((1U << bits) - 1)];
      const bool is_halved = lookup.num_shifts > 0 && ((index >> i) & 1U) != 0;
      table.push_back(is_halved ? value / 2 : value);
    }
  }
  return table;
}

std::optional<GroupShapes> GroupShapesOf(const FormatSpec& spec, const BlockView& view) {
  const bool has_shifts = formats::HasShifts(spec);
  if (formats::LowCodePlaneBits(spec) > 0) return std::nullopt;
  const int bits = formats::CodePlaneBits(spec);
  if (has_shifts && (spec.sub_block_shift_bits != 1 || !CanHaveShifts(bits))) return std::nullopt;
  const int64_t length = std::min(view.axis, int64_t{spec.block_size});
  const GroupLookup lookup = LookupOf(bits, has_shifts);
  const int64_t num_codes = lookup.num_codes();
  const bool is_row = view.inner == 1;
  if (view.axis % length != 0 || (is_row ? length : view.inner) % num_codes != 0) {
    return std::nullopt;
  }
  const int64_t parts = view.outer * (view.axis / length);
  const int64_t down = is_row ? length / num_codes : length;
  const int64_t across = is_row ? 1 : view.inner / num_codes;
  std::vector<int64_t> scales{parts, 1, across};
  scales.push_back(is_row ? 1 : lookup.num_indexes);
  if (lookup.values_per_index > 1) scales.push_back(is_row ? 1 : lookup.values_per_index);
  GroupShapes shapes{
      {"groups", std::vector<int64_t>{parts, down, across, lookup.num_bytes}},
      {"group_scales", std::move(scales)},
  };
  if (has_shifts) {
    const int64_t sub_blocks = length / spec.sub_block_size;
    if (length % spec.sub_block_size != 0) return std::nullopt;
    if (parts * sub_blocks * view.inner % kShiftsInByte != 0) return std::nullopt;
    shapes.emplace_back("sub_blocks", std::vector<int64_t>{parts, sub_blocks, 1, view.inner});
    shapes.emplace_back("shift_groups",
                        std::vector<int64_t>{parts, down, across, lookup.num_shifts});
  }
  return shapes;
}

void AddGroupBody(UnpackBody& body, const FormatSpec& spec, DataType code_type) {
  // ONNX Runtime has no Reshape of FP8 codes.
  const std::string codes = HasFloat8Codes(spec) && code_type != DataType::kUInt8
                                ? body.Cast("codes", DataType::kFloat, "values_of_codes")
                                : "codes";
  const std::string groups =
      body.Add("Reshape", {codes, body.IntsAttribute("groups")}, "codes_in_groups");
  std::string values = groups;
  if (code_type == DataType::kUInt8) {
    values = AddValues(body, spec, groups);
  } else if (code_type == DataType::kInt8) {
    values = body.Cast(groups, DataType::kFloat, "values");
  }
  const std::string scale_bytes =
      body.Add("Reshape", {"scales", body.IntsAttribute("group_scales")}, "scales_in_groups");
  const auto scales = formats::ScaleTable(spec);
  const std::string scale =
      body.Add("Gather",
               {body.Floats("scale_of_byte", {256}, {scales.begin(), scales.end()}),
                body.Cast(scale_bytes, DataType::kInt32, "scale_index")},
               "scale");
  const std::string scaled = body.Add("Mul", {values, scale}, "weight_in_groups");
  body.Add("Reshape", {scaled, body.IntsAttribute("shape")}, "weight");
}

}  // namespace bitpress::weights
