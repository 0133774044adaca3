// Kernels with mistakes that test_ptx_machine.h must notice. test_mistakes.ptx is made from this file
// (tools/make_ptx.py).
#include "cuda/device.h"

using namespace bitpress::cuda;

struct MistakeArgs {
  const uint32_t* x;
  uint32_t* y;
  int64_t count;
};

BITPRESS_KERNEL(64) correct(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  const uint32_t other = FromLane(static_cast<uint32_t>(i), 1);
  if (i < a.count) a.y[i] = a.x[i] + other;
}
BITPRESS_KERNEL(64) reads_behind_the_end(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  if (i < a.count) a.y[i] = a.x[i + 1];
}
BITPRESS_KERNEL(64) writes_behind_the_end(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  if (i < a.count) a.y[i + 1] = 1;
}
BITPRESS_KERNEL(64) two_write_one_word(const MistakeArgs a) { a.y[Thread() / 2] = Thread(); }
BITPRESS_KERNEL(64) writes_what_others_read(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  a.y[i] = a.y[a.count - 1 - i];
}
BITPRESS_KERNEL(64) writes_its_input(const MistakeArgs a) {
  const_cast<uint32_t*>(a.x)[BlockIndex() * 64 + Thread()] = 1;
}
BITPRESS_KERNEL(64) some_lanes_meet(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  uint32_t value = a.x[i];
  if (Thread() % 32 < 16) value = FromLane(value, 1);
  a.y[i] = value;
}
BITPRESS_KERNEL(64) lanes_meet_elsewhere(const MistakeArgs a) {
  const int64_t i = BlockIndex() * 64 + Thread();
  const uint32_t value = a.x[i];
  if (Thread() % 2 == 0) {
    a.y[i] = FromLane(value, 1);
  } else {
    a.y[i] = FromLane(value + 1, 3) + 5;
  }
}
BITPRESS_KERNEL(64) reads_shared_memory_of_others(const MistakeArgs a) {
  BITPRESS_SHARED static uint32_t buffer[64];
  buffer[Thread()] = a.x[Thread()];
  a.y[Thread()] = buffer[63 - Thread()];
}
BITPRESS_KERNEL(64) writes_behind_shared_memory(const MistakeArgs a) {
  BITPRESS_SHARED static uint32_t buffer[64];
  buffer[Thread() + a.count] = a.x[Thread()];
  a.y[Thread()] = buffer[Thread()];
}
BITPRESS_KERNEL(64) is_not_aligned(const MistakeArgs a) {
  const auto* const from = reinterpret_cast<const float*>(a.x) + 1;
  StoreFour(LoadFour(from), reinterpret_cast<float*>(a.y));
}
BITPRESS_KERNEL(64) divides_by_zero(const MistakeArgs a) {
  a.y[Thread()] = 7u / static_cast<uint32_t>(a.count - 64);
}
