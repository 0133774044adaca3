#include "weights/widen_codes.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "formats/pack.h"
#include "graph/own_domain.h"
#include "ops/quantizer_nodes.h"
#include "weights/native_form.h"
#include "weights/unpack_body.h"

namespace bitpress::weights {
namespace {

// Returns the byte of two wide codes for each value of two narrow ones in the lowest bits of
// `num_values` numbers.
Tensor PairTable(size_t num_values, bool has_zero_points) {
  const int offset = has_zero_points ? 0 : (1 << (kWideBits - 1)) - (1 << (kNarrowBits - 1));
  Tensor table{
      DataType::kUInt8, {static_cast<int64_t>(num_values)}, std::vector<std::byte>(num_values)};
  for (size_t value = 0; value < num_values; ++value) {
    const auto code = [&](int i) {
      return (static_cast<int>(value) >> (i * kNarrowBits) & ((1 << kNarrowBits) - 1)) + offset;
    };
    table.bytes[value] = static_cast<std::byte>(code(0) | code(1) << kWideBits);
  }
  return table;
}

}  // namespace

std::string WidenerName(bool has_zero_points) {
  return fmt::format("{}{}int{}", ops::kWidenPrefix, has_zero_points ? "u" : "", kNarrowBits);
}

graph::FunctionSpec WidenerFunction(bool has_zero_points) {
  graph::FunctionSpec function;
  function.domain = graph::kOwnDomain;
  function.name = WidenerName(has_zero_points);
  function.doc =
      "Codes of 4 bits, two to a byte, from codes of 3 bits, eight to three bytes, as "
      "com.microsoft.MatMulNBits reads them.";
  function.inputs = {"codes"};
  function.outputs = {"wide_codes"};
  function.attributes = {"shape"};
  UnpackBody body(function);
  // A group has two codes in the low bits of each byte, and two more in the spare bits of all.
  const formats::PackGroup group = formats::PackGroupOf(kNarrowBits);
  const std::string bytes = body.Cast("codes", DataType::kInt32, "bytes");
  const std::string pairs = body.Add(
      "Gather", {body.Constant("pairs_of_byte", PairTable(256, has_zero_points)), bytes}, "pairs");
  const std::string stream = body.SpareStream(bytes, group, "spare");
  const size_t num_streams = size_t{1} << (2 * kNarrowBits);
  const std::string last = body.Add(
      "Gather",
      {body.Constant("pair_of_spare_bits", PairTable(num_streams, has_zero_points)), stream},
      "last_pair");
  const std::string groups = body.Add("Concat", {pairs, last}, "groups", {{"axis", int64_t{1}}});
  body.Add("Reshape", {groups, body.IntsAttribute("shape")}, "wide_codes");
  return function;
}

}  // namespace bitpress::weights
