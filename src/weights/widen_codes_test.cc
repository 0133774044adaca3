#include "weights/widen_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "formats/pack.h"
#include "weights/native_form.h"

namespace bitpress::weights {
namespace {

// Returns the numbers of a table in the function.
std::vector<int> TableNamed(const graph::FunctionSpec& function, const std::string& name) {
  std::vector<int> numbers;
  for (const graph::NodeSpec& node : function.nodes) {
    if (node.outputs.front() != name) continue;
    const auto& tensor = std::get<Tensor>(node.attributes.front().second);
    for (const std::byte byte : tensor.bytes) numbers.push_back(std::to_integer<int>(byte));
  }
  return numbers;
}

// Its lookups give the bytes of wide codes for every group of two equal bytes and any third one.
TEST(WidenerFunction, LookupsGiveWideCodes) {
  for (const bool has_zero_points : {false, true}) {
    const graph::FunctionSpec function = WidenerFunction(has_zero_points);
    EXPECT_EQ(function.name, has_zero_points ? "Widen_uint3" : "Widen_int3");
    const std::vector<int> pairs = TableNamed(function, "pairs_of_byte");
    const std::vector<int> last = TableNamed(function, "pair_of_spare_bits");
    ASSERT_EQ(pairs.size(), 256u);
    ASSERT_EQ(last.size(), 64u);
    const int offset = has_zero_points ? 0 : 4;
    for (int first = 0; first < 256; ++first) {
      for (int other = 0; other < 256; ++other) {
        const std::vector<uint8_t> bytes{static_cast<uint8_t>(first), static_cast<uint8_t>(first),
                                         static_cast<uint8_t>(other)};
        std::vector<uint8_t> codes(8);
        formats::UnpackCodes(bytes, kNarrowBits, codes);
        const int stream = (bytes[0] >> 6) + (bytes[1] >> 6) * 4 + (bytes[2] >> 6) * 16;
        for (size_t i = 0; i < 4; ++i) {
          const int wide = i < 3 ? pairs[bytes[i]] : last[static_cast<size_t>(stream)];
          ASSERT_EQ(wide, (codes[2 * i] + offset) | (codes[2 * i + 1] + offset) << 4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bitpress::weights
