#include "runtime/pair_sums.h"

#include <cstddef>
#include <string_view>

#include "runtime/session.h"

namespace bitpress::runtime {
namespace {

using namespace std::string_view_literals;

// The model y = MatMulInteger(a, b) of opset 13: a is uint8 [1, 2], b the constant int8 [[127],
// [127]], y int32 [1, 1].
constexpr std::string_view kProductOfTwo =
    "\x08\x07\x3a\x56\x0a\x18\x0a\x01\x61\x0a\x01\x62\x12\x01\x79\x22\x0d\x4d\x61\x74\x4d\x75"
    "\x6c\x49\x6e\x74\x65\x67\x65\x72\x12\x01\x67\x2a\x0d\x08\x02\x08\x01\x10\x03\x42\x01\x62"
    "\x4a\x02\x7f\x7f\x5a\x13\x0a\x01\x61\x12\x0e\x0a\x0c\x08\x02\x12\x08\x0a\x02\x08\x01\x0a"
    "\x02\x08\x02\x62\x13\x0a\x01\x79\x12\x0e\x0a\x0c\x08\x06\x12\x08\x0a\x02\x08\x01\x0a\x02"
    "\x08\x01\x42\x04\x0a\x00\x10\x0d"sv;

bool Ask() {
  Session session = Session::FromMemory(kProductOfTwo, {.num_threads = 1});
  const Tensor largest{DataType::kUInt8, {1, 2}, {std::byte{255}, std::byte{255}}};
  return session.Run({largest})[0].values<int32_t>()[0] != 2 * 255 * 127;
}

}  // namespace

bool SaturatesPairSums() {
  static const bool saturates = Ask();
  return saturates;
}

}  // namespace bitpress::runtime
