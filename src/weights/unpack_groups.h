// The fast body of a function that decodes a packed weight (unpack_functions.h), for weights whose
// groups of bytes do not cross the end of a block: nearly all. ONNX Runtime keeps every
// intermediate tensor of all weights until it has folded the last one, and pages that are touched
// for the first time cost more than the arithmetic. So few operators have as many floats as the
// weight, and bits are gathered while they are bytes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/format_spec.h"
#include "weights/unpack_body.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// How to look up the codes of whole groups. A row of bytes, the row of each byte's spare high bits
// and, if there are sub-blocks, the row of each code's shift stand side by side. The product of
// that row with `weights` gives indexes. Each index selects values in a table, which ignores bits
// of other codes.
struct GroupLookup {
  int64_t num_bytes = 1;         // in a group
  int spare_bits = 0;            // high bits of each byte, for codes that lie in several bytes
  int64_t num_shifts = 0;        // one for each code, or none
  int64_t num_indexes = 1;       // columns of `weights`
  int64_t values_per_index = 1;  // columns of the table
  int low_bits = 0;              // of an index below its codes: shifts, bits of other codes
  int index_bits = 8;            // of an index
  std::vector<uint8_t> weights;  // empty: each byte is an index

  int64_t num_codes() const { return num_indexes * values_per_index; }
};

// Returns whether shifts can lie beside codes of so many bits: eight codes have one row of spare
// bits or none, and the table stays small. MX4, MX6 and MX9 qualify.
constexpr bool CanHaveShifts(int bits) { return bits > 2 && bits != 6; }

// Returns the lookup of codes of so many bits, each with a shift of one bit if `has_shifts`.
// REQUIRES: 1 <= bits <= 8, and CanHaveShifts(bits) if `has_shifts`.
GroupLookup LookupOf(int bits, bool has_shifts);
// Returns the table, row by row: the value of each code in `values`, halved if its shift is 1.
std::vector<float> TableOf(const GroupLookup& lookup, int bits, const std::vector<float>& values);

// The shapes in which groups meet their scales: attributes of the node, so that weights of one
// format share a function.
using GroupShapes = std::vector<std::pair<std::string, graph::Attribute>>;
// Returns them; nothing if the weight needs the general body.
std::optional<GroupShapes> GroupShapesOf(const formats::FormatSpec& spec, const BlockView& view);

// Adds the body. `code_type` is the element type of the codes.
void AddGroupBody(UnpackBody& body, const formats::FormatSpec& spec, DataType code_type);

}  // namespace bitpress::weights
